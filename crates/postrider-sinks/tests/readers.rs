//! The output as another process reads it.

use std::process::{Command, Stdio};

use postrider::sink::Sink;
use postrider_sinks::Stdout;
use postrider_sinks::file::{File, FileConfig};
use postrider_testkit::conformance::sink::batch;

const LINES: &str = "{\"key\":\"a\",\"number\":0}\n{\"key\":\"a\",\"number\":1}\n";

#[tokio::test]
async fn another_process_can_read_every_line_that_the_file_sink_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let sink = File::open(&FileConfig::new(&path)).unwrap();
    sink.publish(&batch("a", 0..2)).await;
    let cat = Command::new("cat").arg(path).output().unwrap();
    assert_eq!(String::from_utf8(cat.stdout).unwrap(), LINES);
}

/// Run by the next test in a separate process.
#[tokio::test]
#[ignore = "writes to the real standard output"]
async fn publish_to_standard_output() {
    Stdout::new().unwrap().publish(&batch("a", 0..2)).await;
}

#[test]
fn another_process_can_read_every_line_that_the_stdout_sink_acknowledged() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "publish_to_standard_output", "--ignored", "--nocapture", "--quiet"])
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    // The test harness prints around it.
    assert!(String::from_utf8(child.stdout).unwrap().contains(LINES));
}

#[test]
fn a_file_that_cannot_be_opened_is_reported_with_its_path_and_cause() {
    let error = File::open(&FileConfig::new("/nowhere/events.jsonl")).unwrap_err().report();
    assert!(error.starts_with("error[PR-0501]: cannot open /nowhere/events.jsonl"), "{error}");
    assert!(error.contains("No such file"), "{error}");
}

#[test]
fn a_path_that_is_not_a_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = File::open(&FileConfig::new(folder.path())).unwrap_err().report();
    assert!(error.contains("not a regular file"), "{error}");
}

#[tokio::test]
async fn two_sinks_on_one_file_do_not_mix_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let config = FileConfig::new(folder.path().join("events.jsonl")).rotate_bytes(2_000);
    let writers = ["a", "b", "c"].map(|key| {
        let sink = File::open(&config).unwrap();
        tokio::spawn(async move {
            for round in 0..10 {
                sink.publish(&batch(key, round * 10..(round + 1) * 10)).await;
            }
        })
    });
    for writer in writers {
        writer.await.unwrap();
    }
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let text: String = names.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 300);
    assert!(lines.iter().all(|line| line.starts_with('{') && line.ends_with('}')));
}
