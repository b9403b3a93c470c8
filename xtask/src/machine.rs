//! The machine on which a figure was measured.

use std::process::Command;

use crate::process;

/// Two lines: when and from which commit; on which machine.
pub(crate) fn stamp() -> String {
    let unknown = |_| "unknown".to_owned();
    let date = process::output(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]));
    let commit =
        process::output(Command::new("git").args(["describe", "--always", "--dirty", "--exclude=*"]));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    format!(
        "date: {}, commit {}\nmachine: {cores} cores, {}, {}\n",
        date.unwrap_or_else(unknown).trim(),
        commit.unwrap_or_else(unknown).trim(),
        memory_gib(&memory).map_or_else(|| "unknown memory".to_owned(), |gib| format!("{gib:.1} GiB memory")),
        cpu_model(&cpu).unwrap_or("unknown CPU"),
    )
}

/// `model name : ...` of the first processor in `/proc/cpuinfo`.
fn cpu_model(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim())
}

/// `MemTotal: n kB` of `/proc/meminfo`.
fn memory_gib(meminfo: &str) -> Option<f64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processor_names_the_model() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n"), Some("Some CPU @ 2.0GHz"));
        assert_eq!(cpu_model("processor\t: 0\n"), None);
    }

    #[test]
    fn memory_is_read_in_gib() {
        assert_eq!(memory_gib("MemTotal:        2097152 kB\nMemFree: 1 kB\n"), Some(2.0));
        assert_eq!(memory_gib(""), None);
    }
}
