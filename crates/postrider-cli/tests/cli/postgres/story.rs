//! From an empty database to a delivered event.

use std::process::Stdio;

use serde_json::Value;

use super::Shop;
use crate::shop::{Running, status, until};
use crate::story::{migrate_twice, start_relay, stop_after, write_four_events};

#[test]
fn an_event_is_written_delivered_and_listed() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.program();
    let database = shop.url.replace("postgres@", "***@");
    migrate_twice(&program, &format!("shop: created the tables in {database}, schema "), "");
    let reported: Value =
        serde_json::from_str(&program.run(&["migrate", "status", "--json"]).stdout).unwrap();
    assert_eq!(reported[0]["state"], "ready");

    let relay = start_relay(&program);
    write_four_events(&program);
    // A second relay logs once that it is a standby, and which relay leads.
    let mut command =
        program.command(&["relay", "--set", "relay.name=second", "--set", "sink.out.path=b.jsonl"]);
    command.stderr(Stdio::piped());
    let second = Running::start(command);
    let mut log = std::io::BufReader::new(relay_stderr(&second).unwrap());
    let holder = status(&program)["lease"]["holder"].as_str().unwrap().to_owned();
    let line = until(|| {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut log, &mut line).unwrap();
        line.contains("standby: ").then_some(line)
    });
    assert!(line.contains(&holder), "{line}");
    drop(second);

    stop_after(&program, relay, 4);
}

fn relay_stderr(relay: &Running) -> std::io::Result<std::fs::File> {
    std::fs::File::open(format!("/proc/{}/fd/2", relay.0.id()))
}

#[test]
fn a_subscription_is_paused_resumed_and_accepts_another_history() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.ready();
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0));
    assert_eq!(program.run(&["pause", "orders", "--reason", "tea"]).exit, Some(0));
    assert_eq!(status(&program)["reason"], "tea");
    assert_eq!(program.run(&["resume", "orders"]).exit, Some(0));
    assert_eq!(program.run(&["accept-history", "orders", "--from", "beginning"]).exit, Some(0));
    let again = program.run(&["relay", "--drain", "--set", "sink.out.type=stdout", "--quiet"]);
    assert!(again.stdout.contains("\"type\":\"shop.opened\""), "{again:?}");
}

#[test]
fn printed_migrations_create_the_same_tables_in_another_schema() {
    let Some(shop) = Shop::new() else { return };
    let program = shop.program().variable("POSTRIDER__OUTBOX__SHOP__SCHEMA", "shop_outbox");
    shop.sql(&program.run(&["migrate", "print"]).stdout);
    assert!(program.run(&["migrate", "up"]).stderr.contains("shop: up to date, schema "));
    assert_eq!(program.run(&["write", "--type", "a"]).exit, Some(0));
    assert_eq!(shop.number("SELECT count(*) FROM shop_outbox.events"), 1);
}

#[test]
fn events_that_a_new_subscription_skips_are_reported() {
    let Some(shop) = Shop::new() else { return };
    let ran = shop.ready().run(&["relay", "--drain", "--set", "subscription.orders.start=now"]);
    assert!(ran.stderr.contains("events before its start are not delivered to it"), "{ran:?}");
    assert!(ran.stderr.contains("last_position_skipped=1"), "{ran:?}");
}
