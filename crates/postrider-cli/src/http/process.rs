//! The standard metrics `process_*`, from `/proc`; none on other systems than Linux.

use std::fmt::Write;
use std::fs;

/// Clock ticks per second in `/proc`: 100 on every architecture that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// Appends the metrics.
pub(super) fn write(text: &mut String) {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = |name: &str| -> Option<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in parentheses and may contain spaces.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |field: usize| -> Option<f64> { after_name.split_whitespace().nth(field)?.parse().ok() };
    let cpu = || Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND);
    let started = || Some(booted()? + ticks(19)? / TICKS_PER_SECOND);
    let values = [
        ("process_cpu_seconds_total", "counter", "User and system CPU time.", cpu()),
        ("process_start_time_seconds", "gauge", "Start of the process; Unix time.", started()),
        (
            "process_resident_memory_bytes",
            "gauge",
            "Resident memory.",
            kilobytes("VmRSS:").map(|kb| kb * 1024.0),
        ),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Virtual memory.",
            kilobytes("VmSize:").map(|kb| kb * 1024.0),
        ),
        ("process_open_fds", "gauge", "Open file descriptors.", open_files()),
        ("process_max_fds", "gauge", "Maximum number of open file descriptors.", max_files()),
    ];
    for (name, kind, help, value) in values {
        if let Some(value) = value {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
        }
    }
}

/// When the system started; Unix time.
fn booted() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn open_files() -> Option<f64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u32::try_from(count).ok().map(f64::from)
}

fn max_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_this_process_are_plausible() {
        let mut text = String::new();
        write(&mut text);
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
            line.parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1_000_000.0, "{text}");
        assert!(value("process_open_fds") >= 3.0, "{text}");
        assert!(value("process_start_time_seconds") > 1_700_000_000.0, "{text}");
        assert!(value("process_cpu_seconds_total") >= 0.0, "{text}");
    }
}
