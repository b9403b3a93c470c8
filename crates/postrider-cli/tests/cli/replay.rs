//! `postrider replay`, as an operator uses it.

use std::process::Stdio;

use postrider_testkit::eventually_blocking;
use serde_json::Value;

use crate::cleanup::json;
use crate::program::Program;
use crate::shop::{self, Running};

fn write(program: &Program, order: &str, payload: &str) {
    let aggregate = format!("Order:{order}");
    let ran =
        program.run(&["write", "--type", "order.placed", "--aggregate", &aggregate, "--payload", payload]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

fn drain(program: &Program) {
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

/// The payloads that arrived, in order.
fn payloads(program: &Program) -> Vec<i64> {
    let lines = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    let line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["payload"].as_i64().unwrap();
    lines.lines().map(line).collect()
}

/// Four events are delivered; those of one order are delivered again, then those of a time.
pub(crate) fn finished_events_are_delivered_again(program: &Program) {
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    for (order, payload) in [("1", "1"), ("2", "2"), ("1", "3"), ("3", "4")] {
        write(program, order, payload);
    }
    drain(program);
    write(program, "1", "5");
    let counted = json(&program.run(&["replay", "orders", "--key", "Order/1", "--dry-run", "--json"]));
    assert_eq!((&counted["planned"]["replayed"], &counted["replayed"]), (&2.into(), &0.into()), "{counted}");
    assert_eq!(counted["planned"]["not_done"], 1, "{counted}");
    let asked = program.run(&["replay", "orders", "--key", "Order/1"]);
    assert_eq!(asked.exit, Some(2), "{asked:?}");
    assert!(asked.stderr.contains("2 finished event(s) can be delivered again"), "{asked:?}");
    assert!(asked.stderr.contains("1 other event(s) were not delivered yet"), "{asked:?}");
    assert!(asked.stderr.contains("add --yes"), "{asked:?}");
    let audit = json(&program.run(&["audit", "list", "--json"]));
    assert!(audit.as_array().unwrap().iter().all(|entry| entry["action"] != "replay"), "{audit}");

    let args =
        ["replay", "orders", "--key", "Order/1", "--yes", "--reason", "consumer\u{1b}[2J fixed", "--json"];
    let replayed = json(&program.run(&args));
    assert_eq!(replayed["replayed"], 2, "{replayed}");
    let again = json(&program.run(&args));
    assert_eq!((&again["replayed"], &again["planned"]["already_parked"]), (&0.into(), &2.into()), "{again}");
    let listed = json(&program.run(&["parked", "list", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    assert!(listed.as_array().unwrap().iter().all(|row| row["redelivery"] == "replay"), "{listed}");
    drain(program);
    let arrived = payloads(program);
    assert_eq!((arrived.len(), arrived[..4].iter().sum::<i64>()), (7, 10), "{arrived:?}");
    assert_eq!(arrived[4..], [1, 3, 5], "in the order of the key, and the new one after them");

    let replayed = json(&program.run(&["replay", "orders", "--since", "1h", "--to", "4", "--yes", "--json"]));
    assert_eq!(replayed["replayed"], 4, "{replayed}");
    drain(program);
    assert_eq!(payloads(program)[7..].iter().sum::<i64>(), 10);
    let audit = json(&program.run(&["audit", "list", "--json"]));
    let (newer, older) = (&audit[0], &audit[1]);
    assert_eq!((&newer["action"], &newer["events"]), (&"replay".into(), &4.into()), "{audit}");
    assert_eq!(
        (&older["targets"], &older["reason"]),
        (&"1 3".into(), &"consumer [2J fixed".into()),
        "{audit}"
    );
    assert_eq!(older["selection"], "key \"Order/1\"", "{audit}");
    assert_eq!(shop::status(program)["backlog"]["events"], 0);
}

#[test]
fn finished_events_are_delivered_again_on_sqlite() {
    finished_events_are_delivered_again(&Program::with_config(shop::GOOD));
}

#[test]
fn a_replay_without_a_selection_or_of_nothing_changes_nothing() {
    let program = shop::delivered();
    let refused: [(&[&str], &str); 7] = [
        (&["replay", "orders"], "no event is selected"),
        (&["replay", "orders", "--from", "0"], "a number from 1 on"),
        (&["replay", "orders", "--from", "5", "--to", "4"], "--from is above --to"),
        (&["replay", "orders", "--since", "1h", "--until", "2h"], "--since is after --until"),
        (&["replay", "orders", "--all", "--events-per-second", "0"], "--events-per-second"),
        (&["replay", "other", "--all", "--yes"], "other"),
        (&["replay", "orders", "--since", "yesterday"], "use a time such as"),
    ];
    for (args, why) in refused {
        let ran = program.run(args);
        assert_ne!(ran.exit, Some(0), "{ran:?}");
        assert!(ran.stderr.contains(why), "{args:?}: {ran:?}");
    }
    let ran = program.run(&["replay", "orders", "--type", "other", "--yes"]);
    assert!(ran.exit == Some(0) && ran.stderr.contains("nothing was replayed"), "{ran:?}");
    assert_eq!(shop::number(&program, "SELECT count(*) FROM postrider_parked"), 0);
}

#[test]
fn a_replay_in_a_table_with_a_state_per_row_is_refused_with_the_reason() {
    let config = shop::GOOD.replace("shop.db'", "shop.db'\nlayout = 'outbox_events'");
    let program = Program::with_config(&config);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let ran = program.run(&["replay", "orders", "--all", "--yes"]);
    assert_ne!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("each row of"), "{ran:?}");
}

#[test]
fn a_replay_that_is_stopped_says_where_to_continue() {
    let program = Program::with_config(shop::GOOD);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    shop::run_sql(
        &program,
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 100)
         INSERT INTO postrider_events (type, aggregate_type, aggregate_id, payload)
         SELECT 'order.placed', 'Order', n, CAST(n AS TEXT) FROM numbers",
    );
    drain(&program);
    let mut command = program.command(&["replay", "orders", "--all", "--events-per-second", "1", "--yes"]);
    command.stderr(Stdio::piped()).stdout(Stdio::null());
    let running = Running::start(command);
    let parked = "SELECT count(*) FROM postrider_parked";
    eventually_blocking("the first event is replayed", || shop::number(&program, parked) > 0);
    running.signal("INT");
    let (exit, said) = running.end();
    let replayed = shop::number(&program, parked);
    assert_eq!(exit, Some(130), "{said}");
    assert!(replayed < 100, "it was stopped too late");
    assert!(said.contains("to continue, run the command again with --from "), "{said}");
    let from: i64 = said.split("--from ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!(from <= replayed + 1, "nothing is left out: {said}");
    let rest = json(&program.run(&["replay", "orders", "--from", &from.to_string(), "--yes", "--json"]));
    assert_eq!(rest["replayed"].as_i64().unwrap() + replayed, 100, "{rest}");
    drain(&program);
    let mut arrived = payloads(&program)[100..].to_vec();
    arrived.sort_unstable();
    assert_eq!(arrived, (1..=100).collect::<Vec<_>>());
}
