//! `postrider explain`, as an operator uses it.

use serde_json::Value;

use crate::program::{Program, Ran};
use crate::shop;

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// The sentence about an event.
fn said(program: &Program, event: &str) -> String {
    let ran = program.run(&["explain", event]);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    ran.stdout
}

/// The id of the event of this type.
fn id_of(program: &Program, kind: &str) -> String {
    let listed = json(&program.run(&["events", "list", "--type", kind, "--json"]));
    listed[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_event_is_explained_from_its_commit_to_its_delivery() {
    let program = shop::ready();
    assert!(said(&program, "1").starts_with("event 1 ("), "{}", said(&program, "1"));
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let id = id_of(&program, "shop.opened");
    assert!(said(&program, &id).contains("orders: delivered before "), "{}", said(&program, &id));
    assert_eq!(program.run(&["write", "--type", "order.placed"]).exit, Some(0));
    let waiting = said(&program, "2");
    assert!(
        waiting.contains("orders: waits to be read; it is the next event; no relay is running"),
        "{waiting}"
    );
    assert_eq!(program.run(&["pause", "orders", "--reason", "moving house"]).exit, Some(0));
    let paused = said(&program, "2");
    assert!(paused.contains("is paused by \"") && paused.contains("\"moving house\""), "{paused}");
}

#[test]
fn a_dead_event_is_explained_until_it_is_discarded_and_then_by_whom() {
    let program = shop::ready();
    let write = ["write", "--type", "order.placed", "--aggregate", "Order:42", "--payload", "1\n2"];
    assert_eq!(program.run(&write).exit, Some(0));
    let ran = program.run(&["relay", "--drain", "--set", "sink.out.encoder=plain"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    let dead = said(&program, "2");
    assert!(dead.contains("orders: dead: given up"), "{dead}");
    let of_key = json(&program.run(&["explain", "--key", "Order/42", "--json"]));
    assert_eq!(of_key[0]["subscriptions"][0]["state"], "dead", "{of_key}");
    assert_eq!(of_key[0]["subscriptions"][0]["row"], "2", "{of_key}");
    let ran = program.run(&["dead", "discard", "2", "--yes", "--reason", "test data"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let discarded = said(&program, "2");
    assert!(discarded.contains("never delivered") && discarded.contains("\"test data\""), "{discarded}");
}

#[test]
fn an_event_that_does_not_exist_is_explained_and_not_an_error() {
    let program = shop::delivered();
    assert!(said(&program, "999").contains("the last assigned position is 1"));
    let unknown = "0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77";
    assert!(said(&program, unknown).contains("removed by retention, or never committed"));
    let answer = json(&program.run(&["explain", "--key", "none", "--json"]));
    assert_eq!(answer[0]["absent"], "nothing_waits", "{answer}");
    let ran = program.run(&["explain"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
}

#[test]
fn an_event_is_shown_with_its_fields_and_its_payload_only_on_request() {
    let program = shop::delivered();
    let write = ["write", "--type", "order.placed", "--aggregate", "Order:42", "--payload", "\"secret\""];
    assert_eq!(program.run(&write).exit, Some(0));
    let shown = program.run(&["events", "show", "2"]);
    assert_eq!(shown.exit, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("Order/42") && shown.stdout.contains("orders: waits"), "{shown:?}");
    assert!(!shown.stdout.contains("secret"), "{shown:?}");
    let id = id_of(&program, "order.placed");
    let shown = json(&program.run(&["events", "show", &id, "--payload", "--json"]));
    assert_eq!((&shown["row"], &shown["payload"]), (&"2".into(), &"\"secret\"".into()), "{shown}");
    assert_eq!(shown["subscriptions"][0]["state"], "backlog", "{shown}");
    let unknown = program.run(&["events", "show", "999"]);
    assert!(unknown.stderr.contains("error[PR-0323]"), "{unknown:?}");
}

#[test]
fn events_of_an_action_are_found_in_the_default_layout() {
    let program = shop::ready();
    let line = |id: &str| {
        format!(
            r#"{{"type": "order.placed", "payload": {{}}, "action": {{"id": "{id}", "name": "PlaceOrder", "params": {{}},
                "started": "2026-11-18T01:00:00Z", "completed": "2026-11-18T01:00:01Z"}}}}"#
        )
        .replace('\n', " ")
    };
    let (one, other) = ("0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c77", "0192d1c0-6a4e-7c3b-9f00-2f1f3a0b5c78");
    let lines = [line(one), line(other), line(one)].join("\n");
    let written = program.run_with(&["write", "--lines"], lines.as_bytes());
    assert_eq!(written.exit, Some(0), "{written:?}");
    let listed = json(&program.run(&["events", "list", "--action", one, "--json"]));
    let rows: Vec<_> = listed.as_array().unwrap().iter().map(|event| event["row"].clone()).collect();
    assert_eq!(rows, ["4", "2"]);
}

#[test]
fn events_are_followed_oldest_first_without_their_payloads() {
    let program = shop::ready();
    for number in ["1", "2"] {
        assert_eq!(program.run(&["write", "--type", "order.placed", "--payload", number]).exit, Some(0));
    }
    let tail = program.run(&["events", "tail", "--since", "1h", "--limit", "3", "--json"]);
    assert_eq!(tail.exit, Some(0), "{tail:?}");
    let events: Vec<Value> = tail.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<_> = events.iter().map(|event| event["row"].as_str().unwrap()).collect();
    assert_eq!(rows, ["1", "2", "3"]);
    assert!(!tail.stdout.contains("payload"), "{tail:?}");
    let one = program.run(&[
        "events",
        "tail",
        "--since",
        "1h",
        "--limit",
        "1",
        "--type",
        "order.placed",
        "--payload",
    ]);
    assert!(one.stdout.starts_with("2 ") && one.stdout.trim_end().ends_with('1'), "{one:?}");
}

#[test]
fn a_payload_is_never_part_of_an_explanation() {
    let program = shop::ready();
    assert_eq!(program.run(&["write", "--type", "order.placed", "--payload", "\"secret\""]).exit, Some(0));
    let ran = program.run(&["explain", "2", "--json"]);
    assert!(!ran.stdout.contains("secret"), "{ran:?}");
}
