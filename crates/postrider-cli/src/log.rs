//! The log of a relay: lines on standard error.

use std::io::{self, Write};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;

use crate::config::settings::{LogFormat, RelaySettings};
use crate::config::url;
use crate::output::{Output, Verbosity};

/// Sends the log of this process to standard error, as the configuration and `-v` or `-q` say. The second
/// call in one process changes nothing.
pub fn start(settings: &RelaySettings, output: Output) {
    let level = level(&settings.log, output.verbosity());
    let subscriber = subscriber(level, settings.log_format, output.colours_talk());
    // Fails only if there is a log already.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// `-v` shows more than the configuration asks for, never less; `-q` shows errors only.
fn level(configured: &str, verbosity: Verbosity) -> LevelFilter {
    let configured = configured.parse().unwrap_or(LevelFilter::INFO);
    match verbosity {
        Verbosity::Quiet => LevelFilter::ERROR,
        Verbosity::Normal => configured,
        Verbosity::Verbose => configured.max(LevelFilter::DEBUG),
        Verbosity::Everything => LevelFilter::TRACE,
    }
}

fn subscriber(level: LevelFilter, format: LogFormat, colours: bool) -> Box<dyn Subscriber + Send + Sync> {
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Masked(io::stderr()))
        .with_ansi(colours);
    match format {
        LogFormat::Text => Box::new(lines.with_target(false).finish()),
        LogFormat::Json => Box::new(lines.json().flatten_event(true).with_current_span(false).finish()),
    }
}

/// Standard error, where no password of a URL gets through. A line is written at once.
struct Masked(io::Stderr);

impl Write for Masked {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(url::without_passwords(&text).as_bytes()).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
