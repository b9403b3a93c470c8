//! Dead letters and waiting events, as an operator handles them.

use serde_json::Value;

use crate::program::{Program, Ran};
use crate::shop;

fn with_dead_events() -> Program {
    let program = Program::with_config(shop::GOOD);
    give_two_events_up(&program);
    program
}

/// One delivered event and two dead ones of one key: a file of lines cannot contain a line break in an event.
pub(crate) fn give_two_events_up(program: &Program) {
    for args in [&["migrate", "up"][..], &["write", "--type", "shop.opened"]] {
        let ran = program.run(args);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    for number in ["1\n2", "3\n4"] {
        let ran =
            program.run(&["write", "--type", "order.placed", "--aggregate", "Order:42", "--payload", number]);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    let ran = program.run(&["relay", "--drain", "--set", "sink.out.encoder=plain"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

fn delivered(program: &Program) -> String {
    std::fs::read_to_string(program.path().join("events.jsonl")).unwrap()
}

#[test]
fn dead_events_are_listed_shown_and_retried_and_the_audit_trail_says_who_did_it_on_sqlite() {
    dead_events_are_listed_shown_and_retried(&Program::with_config(shop::GOOD));
}

/// And the audit trail says who did it.
pub(crate) fn dead_events_are_listed_shown_and_retried(program: &Program) {
    give_two_events_up(program);
    let listed = json(&program.run(&["dead", "list", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(listed[0]["state"], "dead");
    assert_eq!((&listed[0]["key"], &listed[0]["type"]), (&"Order/42".into(), &"order.placed".into()));
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let shown = program.run(&["dead", "show", &id]);
    assert!(shown.stdout.contains("line break"), "{shown:?}");

    // Nothing is selected; then no user can be asked.
    let ran = program.run(&["dead", "retry"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("no dead event is selected"), "{ran:?}");
    let ran = program.run(&["dead", "retry", &id]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("add --yes"), "{ran:?}");

    // Its key has not moved on: the later event of the key is parked, too.
    let changed = json(&program.run(&["dead", "retry", &id, "--yes", "--reason", "fixed", "--json"]));
    assert_eq!((&changed[0]["changed"], &changed[0]["moved_on"]), (&1.into(), &0.into()), "{changed}");
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(delivered(program).contains(&id), "{}", delivered(program));
    assert_eq!(json(&program.run(&["dead", "list", "--json"])).as_array().unwrap().len(), 1);

    let audit = json(&program.run(&["audit", "list", "--json"]));
    assert_eq!((&audit[0]["action"], &audit[0]["events"]), (&"retry".into(), &1.into()), "{audit}");
    assert_eq!((&audit[0]["reason"], &audit[0]["subscription"]), (&"fixed".into(), &"orders".into()));
    assert!(audit[0]["made_by"].as_str().unwrap().contains('@'), "{audit}");
}

#[test]
fn the_history_of_a_dead_event_contains_only_changes_of_its_own_subscription() {
    let program = with_dead_events();
    let id = json(&program.run(&["dead", "list", "--json"]))[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(program.run(&["dead", "retry", &id, "--yes"]).exit, Some(0));
    // It is dead again.
    assert_eq!(program.run(&["relay", "--drain", "--set", "sink.out.encoder=plain"]).exit, Some(1));
    let history = |program: &Program| {
        json(&program.run(&["dead", "show", &id, "--json"]))["history"].as_array().unwrap().len()
    };
    assert_eq!(history(&program), 1);
    // Another subscription has the same positions.
    shop::run_sql(&program, "UPDATE postrider_audit SET subscription = 'other' WHERE action = 'retry'");
    assert_eq!(history(&program), 0);
}

#[test]
fn a_discarded_event_is_never_delivered_and_frees_its_place_on_sqlite() {
    a_discarded_event_is_never_delivered(&Program::with_config(shop::GOOD));
}

/// And it frees its place.
pub(crate) fn a_discarded_event_is_never_delivered(program: &Program) {
    give_two_events_up(program);
    let ran = program.run(&["dead", "discard", "--all", "--yes", "--reason", "test data"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("orders: 2 dead event(s) match"), "{ran:?}");
    assert_eq!(shop::status(program)["parked"]["dead"], Value::Null);
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0));
    assert!(!delivered(program).contains("order.placed"));
    let ran = program.run(&["dead", "discard", "--all", "--yes"]);
    assert!(ran.stderr.contains("nothing was changed"), "{ran:?}");
}

#[test]
fn a_pause_and_its_end_are_in_the_audit_trail() {
    let program = shop::delivered();
    assert_eq!(program.run(&["pause", "orders", "--reason", "moving"]).exit, Some(0));
    assert_eq!(program.run(&["resume", "orders"]).exit, Some(0));
    let audit = json(&program.run(&["audit", "list", "--subscription", "orders", "--json"]));
    let actions: Vec<_> = audit.as_array().unwrap().iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, ["resume", "pause"]);
    assert_eq!(audit[1]["reason"], "moving");
}

#[test]
fn an_unknown_event_or_subscription_changes_nothing() {
    let program = with_dead_events();
    let ran = program.run(&["dead", "show", "999"]);
    assert!(ran.stderr.contains("error[PR-0323]"), "{ran:?}");
    let ran = program.run(&["dead", "retry", "--all", "--yes", "--subscription", "unknown"]);
    assert!(ran.stderr.contains("error[PR-0305]"), "{ran:?}");
    assert_eq!(shop::status(&program)["parked"]["dead"], 2);
}
