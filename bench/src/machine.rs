//! The cost of work in this process: time, CPU, bytes written, memory.

use std::time::{Duration, Instant};

/// The unit of CPU time on Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Cost of a piece of work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Wall-clock time.
    pub wall: Duration,
    /// CPU time of this process, all threads.
    pub cpu: Duration,
    /// Bytes that this process passed to write calls.
    pub written_bytes: u64,
}

/// Measures from its creation to [`Meter::stop`].
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

/// Resident memory of this process; zero if the system does not provide it.
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
    process(std::process::id()).map_or(Duration::ZERO, |this| this.cpu)
}

/// Information of the system about a process.
pub(crate) struct Process {
    /// The name of its program.
    pub(crate) name: String,
    pub(crate) parent: u32,
    /// CPU time, all threads.
    pub(crate) cpu: Duration,
    /// CPU time of its children that have ended.
    pub(crate) with_children_ended: Duration,
}

/// A process of this machine; `None` if it does not exist or the system does not provide the information.
pub(crate) fn process(id: u32) -> Option<Process> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program may contain spaces and brackets; the fields after its closing bracket do not.
    let (head, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let time = |index: usize| {
        let ticks: f64 = fields.get(index)?.parse().ok()?;
        Some(Duration::from_secs_f64(ticks / TICKS_PER_SECOND))
    };
    let cpu = time(11)? + time(12)?;
    Some(Process {
        name: head.split_once('(')?.1.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        cpu,
        with_children_ended: cpu + time(13)? + time(14)?,
    })
}
