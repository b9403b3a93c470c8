//! Waiting events, and what the role of operators allows. The same stories run on every database.

use serde_json::Value;

use crate::cleanup::json;
use crate::dead::give_two_events_up;
use crate::program::Program;
use crate::shop;

fn rows(program: &Program, args: &[&str]) -> Vec<Value> {
    json(&program.run(&[args, &["--json"]].concat())).as_array().unwrap().clone()
}

/// Two dead events are retried: then they wait, are filtered, given up again, and skipped. Replays and retries are listed separately.
pub(crate) fn waiting_events_are_listed_given_up_and_skipped(program: &Program) {
    give_two_events_up(program);
    let counts = |args: &[&str]| {
        rows(program, &[&["parked", "list"], args].concat())
            .iter()
            .map(|row| row["row"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(program.run(&["dead", "retry", "--all", "--yes"]).exit, Some(0));
    assert_eq!(program.run(&["replay", "orders", "--to", "1", "--yes"]).exit, Some(0));
    assert_eq!(counts(&[]), ["1", "2", "3"]);
    assert_eq!(counts(&["--redelivery", "replay"]), ["1"]);
    assert_eq!(counts(&["--redelivery", "retry"]), ["2", "3"]);
    assert_eq!(counts(&["--key", "Order/42", "--type", "order.placed"]), ["2", "3"]);
    let refused = program.run(&["parked", "skip", "2"]);
    assert!(refused.exit == Some(2) && refused.stderr.contains("add --yes"), "{refused:?}");
    let killed = json(&program.run(&["parked", "kill", "2", "--yes", "--reason", "broken", "--json"]));
    assert_eq!(killed[0]["changed"], 1, "{killed}");
    assert_eq!(rows(program, &["dead", "list"]).len(), 1);
    let skipped = json(&program.run(&["parked", "skip", "--redelivery", "retry", "--yes", "--json"]));
    assert_eq!(skipped[0]["changed"], 1, "{skipped}");
    assert_eq!(counts(&[]), ["1"]);
    let ran = program.run(&["relay", "--drain"]);
    assert!(ran.exit == Some(0) && ran.stderr.contains("1 dead"), "{ran:?}");
    let arrived = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(arrived.lines().count(), 2, "the replayed event alone was delivered: {arrived}");
    let actions: Vec<Value> =
        rows(program, &["audit", "list"]).iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, ["skip", "kill", "replay", "retry"]);
    let explained = program.run(&["explain", "3"]);
    assert!(explained.stdout.contains("used `skip`"), "{explained:?}");
}

/// `owner` works with all rights, `operator` with the role for operators, on one database.
pub(crate) fn the_operators_role_is_enough(owner: &Program, operator: &Program) {
    give_two_events_up(owner);
    let dead = rows(operator, &["dead", "list"]);
    let [first, second] = [0, 1].map(|number: usize| dead[number]["id"].as_str().unwrap().to_owned());
    let done = |args: &[&str]| {
        let ran = operator.run(args);
        assert_eq!(ran.exit, Some(0), "{args:?} {ran:?}");
        ran.stdout
    };
    done(&["dead", "show", &first]);
    done(&["dead", "retry", &first, "--yes"]);
    assert_eq!(rows(operator, &["parked", "list"]).len(), 1);
    done(&["parked", "kill", &first, "--yes"]);
    done(&["dead", "retry", &first, "--yes"]);
    done(&["dead", "discard", &second, "--yes"]);
    done(&["pause", "orders", "--reason", "moving"]);
    assert!(done(&["explain", "2"]).contains("the subscription is paused by "));
    done(&["resume", "orders"]);
    assert!(done(&["explain", "3"]).contains("used `discard`"));
    assert!(done(&["replay", "orders", "--all", "--dry-run", "--json"]).contains("\"replayed\""));
    let replayed = json(&operator.run(&["replay", "orders", "--all", "--yes", "--json"]));
    assert_eq!(replayed["replayed"], 2, "the delivered one and the discarded one: {replayed}");
    assert!(done(&["explain", "1"]).contains("an operator asked for a replay"));
    done(&["parked", "skip", "3", "--yes"]);
    for args in [&["status"][..], &["audit", "list"], &["events", "list"], &["subscriptions", "list"]] {
        done(args);
    }
    let ran = owner.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert_eq!(shop::status(operator)["backlog"]["events"], 0);
    assert_eq!(rows(operator, &["parked", "list"]).len(), 0);

    for args in [
        &["cleanup", "--before", "0s", "--yes"][..],
        &["write", "--type", "a"],
        &["relay", "--drain"],
        &["subscriptions", "add", "audit"],
        &["subscriptions", "remove", "orders", "--yes"],
    ] {
        let ran = operator.run(args);
        assert_eq!(ran.exit, Some(3), "{args:?} {ran:?}");
        assert!(ran.stderr.contains("error[PR-0307]: "), "{args:?} {ran:?}");
    }
    assert_eq!(rows(operator, &["events", "list"]).len(), 3, "nothing was deleted");
}

#[test]
fn waiting_events_are_listed_given_up_and_skipped_on_sqlite() {
    waiting_events_are_listed_given_up_and_skipped(&Program::with_config(shop::GOOD));
}
