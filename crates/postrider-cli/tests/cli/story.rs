//! Steps that the tests of every database share.

use std::process::Stdio;

use serde_json::Value;

use crate::program::{Program, Ran};
use crate::shop::{Running, status, until};

/// Creates the tables, and migrates again.
pub(crate) fn migrate_twice(program: &Program, created: &str, current: &str) {
    let made = program.run(&["migrate", "up"]);
    assert_eq!(made.exit, Some(0), "{made:?}");
    assert!(made.stderr.contains(created), "{made:?}");
    assert!(program.run(&["migrate", "up"]).stderr.contains(&format!("shop: up to date, schema {current}")));
}

/// A relay that leads its subscription.
pub(crate) fn start_relay(program: &Program) -> Running {
    let mut command = program.command(&["relay"]);
    command.stderr(Stdio::piped());
    let relay = Running::start(command);
    until(|| (status(program)["state"] == "leading").then_some(()));
    relay
}

/// Writes an order with a payload.
pub(crate) fn write_order(program: &Program, payload: &str) -> Ran {
    program.run(&["write", "--type", "order.placed", "--aggregate", "Order:42", "--payload", payload])
}

/// Writes four events, which the relay delivers.
pub(crate) fn write_four_events(program: &Program) {
    let written = program.run(&["write", "--type", "order.placed", "--aggregate", "Order:42"]);
    assert_eq!(
        (written.exit, written.stdout.trim().ends_with(" position=1")),
        (Some(0), true),
        "{written:?}"
    );
    let lines = "{\"type\":\"a\",\"payload\":1}\n".repeat(3);
    let written = program.run_with(&["write", "--lines", "--batch", "2"], lines.as_bytes());
    assert_eq!((written.exit, written.stderr.as_str()), (Some(0), "committed 3 events\n"), "{written:?}");
    until(|| Some(status(program)).filter(|status| status["floor"] == 4));
}

/// Ends the relay, which has delivered this many events.
pub(crate) fn stop_after(program: &Program, relay: Running, events: usize) {
    relay.signal("TERM");
    let (exit, log) = relay.end();
    assert_eq!(exit, Some(0), "{log}");
    assert_eq!(delivered(program).lines().count(), events);
}

/// The file of the sink.
pub(crate) fn delivered(program: &Program) -> String {
    std::fs::read_to_string(program.path().join("events.jsonl")).unwrap()
}

/// Delivers every row of a table with a state per row.
pub(crate) fn drain_rows(program: &Program, rows: usize) {
    let drained = program.run(&["relay", "--drain"]);
    assert_eq!(drained.exit, Some(0), "{drained:?}");
    assert_eq!(delivered(program).lines().count(), rows, "{drained:?}");
    let reported = status(program);
    assert_eq!(
        (&reported["subscription"], &reported["backlog"]["events"]),
        (&"orders".into(), &0.into()),
        "{reported}"
    );
}

/// The id of one of the delivered events is the one that `write` printed.
pub(crate) fn assert_printed_id(written: &Ran, line: &str) {
    let event: Value = serde_json::from_str(line).unwrap();
    assert!(written.stdout.contains(event["id"].as_str().unwrap()), "{written:?} {line}");
}

/// An event that the table of layout `outbox_events` cannot store is refused.
pub(crate) fn assert_unfit_event_is_refused(program: &Program) {
    let refused = program.run(&["write", "--type", "order.placed", "--payload", "{}"]);
    assert!(refused.exit != Some(0) && refused.stderr.contains("PR-0120"), "{refused:?}");
}

/// Outcome and message of one check of the doctor.
pub(crate) fn found(program: &Program, code: &str) -> (String, String) {
    found_with(program, &[], code)
}

/// The same, with these flags.
pub(crate) fn found_with(program: &Program, flags: &[&str], code: &str) -> (String, String) {
    let ran = program.run(&[&["doctor", "--json"], flags].concat());
    let findings: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"));
    let finding = findings.iter().find(|finding| finding["code"] == code);
    let finding = finding.unwrap_or_else(|| panic!("no {code} in {}", ran.stdout));
    let text = |key: &str| finding[key].as_str().unwrap().to_owned();
    (text("outcome"), text("what"))
}
