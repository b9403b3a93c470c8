//! From an empty folder to a delivered event, as a new user does it.

use serde_json::Value;

use crate::program::Program;
use crate::shop::{self, until};
use crate::story::{start_relay, write_order};

#[test]
fn an_event_from_the_command_line_is_written_delivered_and_listed() {
    let program = Program::new();
    for args in [&["config", "init"][..], &["config", "check"], &["migrate", "up"]] {
        let ran = program.run(args);
        assert_eq!(ran.exit, Some(0), "{ran:?}");
    }
    let relay = start_relay(&program);
    let written = write_order(&program, "{\"total\": 12}");
    let (id, position) = written.stdout.trim().split_once(' ').unwrap();
    let id = id.strip_prefix("id=").unwrap();
    assert_eq!((written.exit, position), (Some(0), "position=1"), "{written:?}");

    let status = until(|| Some(shop::status(&program)).filter(|status| status["floor"] == 1));
    assert_eq!(status["backlog"]["events"], 0, "{status}");
    let holder = status["lease"]["holder"].as_str().unwrap().to_owned();
    let table = program.run(&["status"]).stdout;
    assert!(table.contains(&format!("shop/orders   led by {holder}")), "{table}");

    let file = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    let event: Value = serde_json::from_str(file.trim()).unwrap();
    assert_eq!((event["id"].as_str(), event["type"].as_str()), (Some(id), Some("order.placed")));
    assert_eq!(event["payload"]["total"], 12);

    relay.signal("TERM");
    let (exit, log) = relay.end();
    assert_eq!(exit, Some(0), "{log}");
    assert!(
        log.contains("serving outbox=\"shop\" subscription=\"orders\" sink=\"file events.jsonl\" from=1"),
        "{log}"
    );
    let status = shop::status(&program);
    assert_eq!((status["state"].as_str(), &status["lease"]), (Some("no_relay"), &Value::Null));
}

#[test]
fn a_drain_delivers_every_event_and_exits() {
    let program = shop::ready();
    let ran = program.run(&["relay", "--drain", "--set", "sink.out.type=stdout", "--quiet"]);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.contains("\"type\":\"shop.opened\""), "{ran:?}");
    assert_eq!(program.run(&["relay", "--drain", "--set", "sink.out.type=stdout"]).stdout, "");
}

#[test]
fn a_drain_that_cannot_deliver_an_event_reports_it() {
    let program = shop::ready();
    // A file of lines cannot contain a line break in an event: the event is given up at once.
    program.run(&["write", "--type", "a", "--payload", "1\n2"]);
    let flags = ["relay", "--drain", "--set", "sink.out.encoder=plain"];
    let ran = program.run(&flags);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("error[PR-0404]: 1 event could not be delivered"), "{ran:?}");
    let status = shop::status(&program);
    assert_eq!((&status["parked"]["dead"], &status["floor"]), (&1.into(), &2.into()), "{status}");
    assert!(status["last_error"].as_str().is_some(), "{status}");
    // It was reported once; events that were given up before do not fail the next drain.
    assert_eq!(program.run(&flags).exit, Some(0));
}

#[test]
fn a_relay_can_create_its_tables_at_the_start() {
    let program = Program::with_config(shop::GOOD);
    assert_eq!(program.run(&["relay", "--migrate", "--drain"]).exit, Some(0));
    assert_eq!(shop::status(&program)["state"], "no_relay");
}

#[test]
fn the_log_can_be_json_and_more_verbose() {
    let program = shop::ready();
    let ran = program.run(&["relay", "--drain", "-vv", "--set", "relay.log_format=json"]);
    let lines: Vec<Value> = ran.stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["message"] == "serving" && line["from"] == 1), "{ran:?}");
}

#[test]
fn the_output_of_a_file_sink_can_be_written_back_as_events() {
    let program = shop::delivered();
    let file = std::fs::read(program.path().join("events.jsonl")).unwrap();
    let ran = program.run_with(&["write", "--lines", "--json"], &file);
    let written: Value = serde_json::from_str(&ran.stdout).unwrap();
    let event: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!((&written["id"], &written["position"]), (&event["id"], &2.into()), "{ran:?}");
    assert_eq!(ran.stderr, "committed 1 event\n");
}

#[test]
fn migrations_are_reported_and_safe_to_repeat() {
    let program = Program::with_config(shop::GOOD);
    let state = |program: &Program| -> Value {
        let ran = program.run(&["migrate", "status", "--json"]);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()[0]["state"].clone()
    };
    assert_eq!(state(&program), "missing");
    assert!(
        program.run(&["migrate", "up"]).stderr.contains("created the tables in sqlite:shop.db, schema 5")
    );
    let before = program.files();
    assert!(program.run(&["migrate", "up"]).stderr.contains("up to date, schema 5"));
    assert_eq!(state(&program), "ready");
    assert!(program.files() == before);
}

#[test]
fn printed_migrations_create_the_same_tables() {
    let program = Program::with_config(shop::GOOD);
    let sql = program.run(&["migrate", "print"]).stdout;
    shop::run_sql(&program, &sql);
    let before = program.files();
    assert!(program.run(&["migrate", "up"]).stderr.contains("up to date, schema 5"));
    assert!(program.files() == before);
}

#[test]
fn the_relay_uses_the_rules_and_encoders_of_the_configuration() {
    let rules = "[[subscription.orders.rule]]\ntypes = ['shop.*']\ndestination = 'shops'\n";
    let program = shop::ready().file("postrider.toml", &format!("{}{rules}", shop::GOOD));
    program.run(&["write", "--type", "user.born"]);
    let flags = ["--set", "sink.out.encoder=cloudevents", "--set", "sink.out.source=/shop"];
    let ran = program.run(&[&["relay", "--drain", "--set", "sink.out.type=stdout"][..], &flags].concat());
    let event: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&event["specversion"], &event["source"]), (&"1.0".into(), &"/shop".into()), "{ran:?}");
    // The event that no rule matches waits for one, and that is reported.
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert_eq!(shop::status(&program)["parked"]["unrouted"], 1);
}

#[test]
fn a_paused_subscription_waits_until_it_is_resumed() {
    let program = shop::ready();
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0), "creates the subscription");
    let ran = program.run(&["pause", "orders", "--reason", "moving house"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let status = shop::status(&program);
    assert_eq!(status["state"], "paused", "{status}");
    assert!(program.run(&["status"]).stdout.contains("moving house"));
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0), "no event is waiting");
    assert_eq!(program.run(&["write", "--type", "shop.closed"]).exit, Some(0));
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(1), "a paused subscription cannot be drained: {ran:?}");
    assert!(ran.stderr.contains("subscription \"orders\" is paused: moving house"), "{ran:?}");
    assert!(ran.stderr.contains("delivered 0 events, parked 0"), "{ran:?}");
    assert_eq!(program.run(&["resume", "orders"]).exit, Some(0));
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("delivered 1 event, parked 0"), "{ran:?}");
    let unknown = program.run(&["pause", "order"]);
    assert_eq!(unknown.exit, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("PR-0305"), "{unknown:?}");
}

#[test]
fn a_drain_that_exceeds_its_time_limit_exits_and_reports_remaining_events() {
    let program = shop::ready();
    // No process listens on this port.
    let sink = ["sink.out.type=webhook", "sink.out.url=http://127.0.0.1:9/", "sink.out.allow_private=true"];
    let set: Vec<&str> = sink.iter().flat_map(|key| ["--set", key]).collect();
    let ran = program.run(&[&["relay", "--drain", "--timeout", "300ms"][..], &set].concat());
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("events are still undelivered after 300ms"), "{ran:?}");
    assert!(ran.stderr.contains("delivered 0 events"), "{ran:?}");
}

#[cfg(feature = "postgres")]
#[test]
fn a_drain_waits_for_a_database_only_until_its_time_limit() {
    // No process listens on this port.
    let program =
        Program::with_config(&shop::GOOD.replace("sqlite:shop.db", "postgres://u@127.0.0.1:9/shop"));
    let ran = program.run(&["relay", "--drain", "--timeout", "300ms"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("events are still undelivered after 300ms"), "{ran:?}");
}

#[test]
fn a_drain_exits_with_the_reason_if_an_operator_must_act() {
    let layout = "[outbox.shop]\nurl = 'sqlite:shop.db'\nlayout = 'outbox_events'\n[sink.out]\ntype = 'null'\n\
        [subscription.orders]\nsink = 'out'\n";
    let program = Program::with_config(layout);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    shop::run_sql(
        &program,
        "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload, status, last_attempt_at)
         VALUES ('Order', '1', 'a', '{}', 'PUBLISHING', CURRENT_TIMESTAMP)",
    );
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("error[PR-0320]"), "{ran:?}");
}

#[test]
fn a_new_subscription_starts_at_the_beginning_and_skips_events_only_on_request() {
    let program = Program::with_config(&shop::GOOD.replace("start = 'beginning'\n", ""));
    for args in [&["migrate", "up"][..], &["write", "--type", "shop.opened"]] {
        assert_eq!(program.run(args).exit, Some(0));
    }
    let ran = program.run(&["relay", "--drain"]);
    assert!(ran.stderr.contains("starts with the 1 event(s) already in the outbox"), "{ran:?}");
    assert!(ran.stderr.contains("delivered 1 event, parked 0"), "{ran:?}");

    let late = std::fs::read_to_string(program.path().join("postrider.toml")).unwrap();
    let late = format!(
        "{late}[subscription.late]\nsink = 'other'\n[subscription.new]\nsink = 'other'\nstart = 'now'\n[sink.other]\ntype = 'null'\n"
    );
    std::fs::write(program.path().join("postrider.toml"), late).unwrap();
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("delivered 1 event, parked 0"), "{ran:?}");
    let warned = ran.stderr.lines().find(|line| line.contains("events before its start are not delivered"));
    assert!(warned.is_some_and(|line| line.contains("WARN") && line.contains("new")), "{ran:?}");
}

#[test]
fn after_accept_history_delivery_starts_where_the_operator_chose() {
    let program = shop::ready();
    let drain = ["relay", "--drain", "--set", "sink.out.type=stdout", "--quiet"];
    assert!(program.run(&drain).stdout.contains("\"type\":\"shop.opened\""));
    let wrong = program.run(&["accept-history", "orders", "--from", "yesterday"]);
    assert_eq!(wrong.exit, Some(2), "{wrong:?}");
    assert_eq!(program.run(&["accept-history", "orders", "--from", "beginning"]).exit, Some(0));
    assert!(
        program.run(&drain).stdout.contains("\"type\":\"shop.opened\""),
        "delivered again from the beginning"
    );
}

#[test]
fn a_drain_delivers_unrouted_events_that_the_current_rules_match() {
    let program = shop::ready();
    let config = program.path().join("postrider.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n[[subscription.orders.rule]]\ntypes = [\"order.*\"]\n"))
        .unwrap();
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(1), "an event without a rule is not delivered");
    std::fs::write(&config, format!("{text}\n[[subscription.orders.rule]]\ntypes = [\"*\"]\n")).unwrap();
    let ran = program.run(&["relay", "--drain", "--set", "sink.out.type=stdout", "--quiet"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("\"type\":\"shop.opened\""), "{ran:?}");
}
