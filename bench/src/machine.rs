//! What a piece of work cost this process: time, CPU, bytes written, memory.

use std::time::{Duration, Instant};

/// Linux counts CPU time in these.
const TICKS_PER_SECOND: f64 = 100.0;

/// Cost of a piece of work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Time on the wall.
    pub wall: Duration,
    /// CPU time of this process, all threads.
    pub cpu: Duration,
    /// Bytes this process handed to write calls.
    pub written_bytes: u64,
}

/// Measures from its making to [`Meter::stop`].
#[derive(Debug)]
pub(crate) struct Meter {
    started: Instant,
    cpu: Duration,
    written_bytes: u64,
}

impl Meter {
    #[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), cpu: cpu(), written_bytes: written_bytes() }
    }

    pub(crate) fn stop(self) -> Usage {
        Usage {
            wall: self.started.elapsed(),
            cpu: cpu().saturating_sub(self.cpu),
            written_bytes: written_bytes().saturating_sub(self.written_bytes),
        }
    }
}

/// Resident memory of this process; zero where the system does not say.
pub(crate) fn rss_bytes() -> u64 {
    field("/proc/self/status", "VmRSS:").unwrap_or(0) * 1024
}

fn written_bytes() -> u64 {
    field("/proc/self/io", "wchar:").unwrap_or(0)
}

fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn cpu() -> Duration {
    let ticks = std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| {
        // The name of the program may hold spaces; what follows its bracket does not.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?)
    });
    Duration::from_secs_f64(ticks.unwrap_or(0.0) / TICKS_PER_SECOND)
}
