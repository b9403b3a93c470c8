//! `postrider demo`, as a new user and a script run it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::Program;

/// The test chooses the folder in which the demo creates its temporary folder.
fn program() -> Program {
    let program = Program::new();
    let folder = program.path().to_str().unwrap().to_owned();
    program.variable("TMPDIR", &folder)
}

fn files(program: &Program) -> usize {
    std::fs::read_dir(program.path()).unwrap().count()
}

fn number(object: &Value, name: &str) -> u64 {
    object[name].as_u64().unwrap_or_else(|| panic!("no number {name} in {object}"))
}

fn assert_clean(figures: &Value, events: u64) {
    for name in ["lost", "phantom", "out_of_order", "duplicates"] {
        assert_eq!(number(figures, name), 0, "{name} in {figures}");
    }
    for name in ["written", "delivered", "distinct"] {
        assert_eq!(number(figures, name), events, "{name} in {figures}");
    }
}

#[test]
fn the_figures_of_a_small_run_add_up() {
    let program = program();
    let ran = program.run(&["demo", "--events", "1500", "--exit", "--json"]);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{}", ran.stdout);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_clean(&report, 1_500);
    assert!(number(&report, "rolled_back") > 0);
    assert!(report["seconds"].as_f64().unwrap() > 0.0);
    let subscriptions = report["subscriptions"].as_array().unwrap();
    assert_eq!(subscriptions.len(), 2);
    subscriptions.iter().for_each(|figures| assert_clean(figures, 1_500));
    assert_eq!(files(&program), 0, "the temporary folder is gone");
}

#[test]
fn plain_output_has_no_escapes_and_ends_with_the_verdict() {
    let ran = program().run(&["demo", "--events", "300", "--exit", "--plain"]);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""));
    assert!(!ran.stdout.contains('\u{1b}'), "{:?}", ran.stdout);
    assert!(ran.stdout.contains("Every committed event arrived"), "{}", ran.stdout);
}

#[test]
fn a_named_folder_keeps_the_delivered_events_and_is_not_overwritten() {
    let program = program();
    let args = ["demo", "--events", "50", "--exit", "--json", "--folder", "kept"];
    assert_eq!(program.run(&args).exit, Some(0));
    let lines = std::fs::read_to_string(program.path().join("kept/audit.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 50);
    let again = program.run(&args);
    assert_eq!(again.exit, Some(2));
    assert!(again.stderr.starts_with("error[PR-0609]"), "{}", again.stderr);
}

#[test]
#[cfg(unix)]
fn an_interrupted_demo_checks_its_deliveries_and_reports_the_interruption() {
    let program = program();
    let mut demo = program
        .command(&["demo", "--plain", "--seconds", "3600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(demo.stdout.take().unwrap());
    // The second line is printed one second after the start.
    for _ in 0..2 {
        stdout.read_line(&mut String::new()).unwrap();
    }
    assert!(Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap().success());
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(demo.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("Every committed event arrived"), "{rest}");
    assert_eq!(files(&program), 0, "the temporary folder is gone");
}

#[test]
fn a_closed_pipe_ends_the_demo_silently() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let program = program();
    let output = program.command(&["demo", "--plain"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(141), 0));
    assert_eq!(files(&program), 0, "the temporary folder is gone");
}
