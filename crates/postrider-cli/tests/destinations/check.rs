//! The checker in Python, and a test that it finds errors.

use std::path::Path;
use std::process::Command;

/// The destination of the events.
pub(crate) enum Arrived<'a> {
    /// Brokers, topic, and the folder of the Python client.
    Kafka { brokers: String, topic: &'a str, packages: &'a Path },
    /// Port, stream, and the folder of the Python client.
    Redis { port: u16, stream: &'a str, packages: &'a Path },
    /// Port, session, and the folder of the Python client.
    Mqtt { port: u16, session: &'a str, packages: &'a Path },
    /// The file of an endpoint.
    Log(&'a Path),
}

/// The output of the checker; an error if it objects.
pub(crate) fn check(written: &Path, arrived: &Arrived<'_>, duplicates_max: u64) -> Result<String, String> {
    let mut python = Command::new("python3");
    python.args(["-c", include_str!("check.py")]).arg(written).arg(duplicates_max.to_string());
    match arrived {
        Arrived::Kafka { brokers, topic, packages } => {
            python.args(["kafka", brokers, topic]).env("PYTHONPATH", packages)
        }
        Arrived::Redis { port, stream, packages } => {
            python.args(["redis", &port.to_string(), stream]).env("PYTHONPATH", packages)
        }
        Arrived::Mqtt { port, session, packages } => {
            python.args(["mqtt", &port.to_string(), session]).env("PYTHONPATH", packages)
        }
        Arrived::Log(file) => python.arg("log").arg(file),
    };
    let ended = python.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
    if ended.status.success() {
        return Ok(said);
    }
    Err(format!("{said} {}", String::from_utf8_lossy(&ended.stderr).trim()))
}

/// Three events of one key and one of another, as they were written.
const WRITTEN: &str = "a\tk\t1\t01\nb\tk\t2\t02\nc\tk\t3\t03\nd\tl\t1\t04\n";

/// The output of the checker for requests, each with an id, a key and a body.
fn verdict(requests: &[(&str, &str, &str)]) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let (written, log) = (folder.path().join("written"), folder.path().join("log"));
    let line = |(id, key, body): &(&str, &str, &str)| {
        let key: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
        format!("{id}\t{key}\t{body}\n")
    };
    std::fs::write(&written, WRITTEN).unwrap();
    std::fs::write(&log, requests.iter().map(line).collect::<String>()).unwrap();
    check(&written, &Arrived::Log(&log), 2)
}

#[test]
fn the_checker_finds_lost_invented_changed_reordered_and_duplicated_events() {
    let (a, b, c, d) = (("a", "k", "01"), ("b", "k", "02"), ("c", "k", "03"), ("d", "l", "04"));
    if Command::new("python3").arg("--version").output().is_err() {
        println!("SKIPPED: the checker of deliveries: no python3");
        return;
    }
    assert!(verdict(&[a, d, b, c]).is_ok());
    assert!(verdict(&[a, b, a, b, c, d]).unwrap().contains("duplicates 2"));
    for (wrong, requests) in [
        ("lost 1,", &[a, b, d][..]),
        ("phantom 1,", &[a, b, c, d, ("e", "k", "05")]),
        ("changed 1,", &[a, b, ("c", "k", "ff"), d]),
        ("changed 1,", &[a, b, c, ("d", "k", "04")]),
        ("out of order 2,", &[b, a, c, d]),
        ("out of order 2,", &[a, c, b, d]),
        ("duplicates 3 (bound 2)", &[a, a, a, a, b, c, d]),
    ] {
        let said = verdict(requests).unwrap_err();
        assert!(said.contains(wrong), "{wrong} {said}");
    }
}
