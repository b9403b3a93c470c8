//! The log of a relay: lines on standard error.

use std::io::{self, Write};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::config::settings::{LogFormat, RelaySettings};
use crate::config::url;
use crate::output::{Output, Verbosity};
use crate::traces::Traces;

/// Sends the log of this process to standard error, at the level of the configuration and of `-v` or `-q`, and its spans
/// to a collector, if there is one. A second call has no effect.
pub fn start(settings: &RelaySettings, traces: Option<&Traces>, output: Output) {
    let level = level(&settings.log, output.verbosity());
    // The client of RabbitMQ logs messages with their payload. What it says is also in the outcomes.
    let wanted = Targets::new().with_default(level).with_target("lapin", LevelFilter::OFF);
    let lines = lines(settings.log_format, output.colours_talk()).with_filter(wanted);
    let subscriber = Registry::default().with(traces.map(Traces::layer)).with(lines);
    // Fails only if a log is already set up.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// `-v` can only raise the level of the configuration; `-q` shows errors only.
fn level(configured: &str, verbosity: Verbosity) -> LevelFilter {
    let configured = configured.parse().unwrap_or(LevelFilter::INFO);
    match verbosity {
        Verbosity::Quiet => LevelFilter::ERROR,
        Verbosity::Normal => configured,
        Verbosity::Verbose => configured.max(LevelFilter::DEBUG),
        Verbosity::Everything => LevelFilter::TRACE,
    }
}

fn lines<S>(format: LogFormat, colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(|| Masked(io::stderr())).with_ansi(colours);
    match format {
        LogFormat::Text => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
    }
}

/// Standard error; passwords in URLs are masked. Each line is written immediately, and lost if that is not possible.
struct Masked(io::Stderr);

impl Write for Masked {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        // After an error the subscriber would print it to standard error, and panic: a relay must not end because its
        // terminal is closed.
        let _ = self.0.write_all(url::without_passwords(&text).as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
