//! The output of `status` and `doctor` for a shop with a problem.

use std::process::Stdio;

use serde_json::Value;

use crate::program::Program;
use crate::shop::{self, Running, until};

/// The outcome of a check of the doctor, and its exit code.
fn diagnosed(program: &Program, args: &[&str], code: &str) -> (String, Option<i32>) {
    let args = [&["doctor", "--json"], args].concat();
    let ran = program.run(&args);
    let findings: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let found = findings.iter().find(|finding| finding["code"] == code);
    let finding = found.unwrap_or_else(|| panic!("no {code} in {}", ran.stdout));
    let outcome = finding["outcome"].as_str().unwrap().to_owned();
    assert_eq!(finding.get("fix").is_some(), outcome != "ok", "{finding}");
    (outcome, ran.exit)
}

#[test]
fn a_healthy_shop_passes_every_check() {
    let program = shop::delivered();
    let before = program.files();
    let ran = program.run(&["doctor", "--deep"]);
    assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.lines().skip(1).all(|line| line.starts_with("ok")), "{}", ran.stdout);
    assert!(program.files() == before);
}

#[test]
fn the_doctor_finds_each_problem() {
    let parked = "INSERT INTO postrider_parked (subscription, position, state, attempts, last_error, parked_at, updated_at)
                  VALUES ('orders', 1, 'dead', 3, 'too large', 0, 0)";
    let lease = |holder: &str, expires: &str| {
        format!(
            "INSERT INTO postrider_leases (name, holder, epoch, acquired_at, expires_at) VALUES ('orders', '{holder}', 9, 0, {expires})"
        )
    };
    let future = "unixepoch() * 1000000 + 86400000000";
    for (sql, code, outcome, exit) in [
        ("UPDATE postrider_subscriptions SET halted = 'restored'".to_owned(), "PD-0206", "fail", 5),
        ("UPDATE postrider_subscriptions SET paused = 'tea'".to_owned(), "PD-0205", "warn", 0),
        ("UPDATE postrider_subscriptions SET clean = 0".to_owned(), "PD-0204", "warn", 0),
        (lease("dead-relay", "1"), "PD-0204", "warn", 0),
        (lease("relay", future), "PD-0203", "ok", 0),
        (lease("relay", future), "PD-0202", "warn", 0),
        (format!("UPDATE postrider_events SET time = {future}"), "PD-0201", "warn", 0),
        (parked.to_owned(), "PD-0208", "warn", 0),
        (parked.to_owned(), "PD-0207", "fail", 5),
        ("INSERT INTO postrider_events (type, payload) VALUES ('a', '')".to_owned(), "PD-0203", "warn", 0),
        ("UPDATE postrider_subscriptions SET name = 'old'".to_owned(), "PD-0003", "warn", 0),
        ("UPDATE postrider_subscriptions SET name = 'old'".to_owned(), "PD-0002", "warn", 0),
        ("PRAGMA journal_mode = DELETE".to_owned(), "PD-0105", "fail", 5),
        (
            "INSERT INTO postrider_subscriptions (name, floor, done, created_at, updated_at)
          VALUES ('fast', 200000, '200000', 0, 0)"
                .to_owned(),
            "PD-0209",
            "warn",
            0,
        ),
    ] {
        let program = shop::delivered();
        shop::run_sql(&program, &sql);
        let limit = ["--set", "subscription.orders.parked_max=1"];
        let (found, ended) = diagnosed(&program, &limit, code);
        assert_eq!(
            (found.as_str(), ended),
            (outcome, Some(if code == "PD-0208" { 5 } else { exit })),
            "{sql} {code}"
        );
    }
}

#[test]
fn the_doctor_finds_a_sink_without_a_folder_and_a_damaged_file() {
    let program = shop::delivered();
    let (found, exit) = diagnosed(&program, &["--set", "sink.out.path=no/events.jsonl"], "PD-0001");
    assert_eq!((found.as_str(), exit), ("fail", Some(5)));

    let path = program.path().join("shop.db");
    let mut bytes = std::fs::read(&path).unwrap();
    // The page of a table: the schema can still be read.
    let page =
        shop::number(&program, "SELECT rootpage - 1 FROM sqlite_schema WHERE name = 'postrider_events'");
    let page = usize::try_from(page).unwrap() * 4096;
    bytes[page..page + 4096].fill(0x55);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(diagnosed(&program, &["--deep"], "PD-0109").0, "fail");
}

#[test]
fn status_reports_pauses_halts_backlog_and_parked_events() {
    let program = shop::delivered();
    shop::run_sql(
        &program,
        "UPDATE postrider_subscriptions SET paused = 'tea';
         INSERT INTO postrider_events (type, payload, time) VALUES ('a', '', unixepoch() * 1000000 - 7200000000), ('b', '', 0);
         INSERT INTO postrider_parked (subscription, position, state, attempts, last_error, parked_at, updated_at)
             VALUES ('orders', 1, 'dead', 3, 'too large', 0, 0);",
    );
    let status = shop::status(&program);
    assert_eq!((&status["state"], &status["reason"]), (&"paused".into(), &"tea".into()));
    assert_eq!((&status["floor"], &status["last"]), (&1.into(), &3.into()));
    assert_eq!(status["backlog"], serde_json::json!({ "events": 2, "at_least": false }));
    assert_eq!((&status["parked"]["dead"], &status["last_error"]), (&1.into(), &"too large".into()));
    assert!(status["oldest_undelivered_seconds"].as_f64().is_some_and(|age| age >= 7200.0), "{status}");
    let table = program.run(&["status"]).stdout;
    assert!(table.contains("paused: tea") && table.contains("2h") && table.contains("1 dead"), "{table}");

    shop::run_sql(&program, "UPDATE postrider_subscriptions SET halted = 'restored', name = 'old'");
    let table = program.run(&["status"]).stdout;
    assert!(table.contains("halted: restored; not in the configuration"), "{table}");
    assert!(table.contains("shop/orders   not created yet"), "{table}");
}

#[test]
fn status_and_doctor_leave_an_idle_file_unchanged() {
    let program = shop::delivered();
    let before = program.files();
    for args in
        [&["status"][..], &["status", "--json"], &["migrate", "status"], &["doctor", "--deep", "--json"]]
    {
        assert_eq!(program.run(args).exit, Some(0));
        assert!(program.files() == before, "{args:?}");
    }
}

#[test]
fn status_names_the_subscription_that_holds_retention_back() {
    let program = shop::delivered();
    shop::run_sql(
        &program,
        "INSERT INTO postrider_events (type, payload, time) VALUES ('shop.old', '', 1);
         INSERT INTO postrider_subscriptions (name, floor, done, created_at, updated_at)
         VALUES ('ahead', 9, '9', 0, 0)",
    );
    let table = program.run(&["status"]).stdout;
    let held: Vec<&str> = table.lines().filter(|line| line.contains("blocks retention")).collect();
    assert!(matches!(held[..], [line] if line.contains("orders")), "{table}");
    let rows = program.run(&["status", "--json"]).stdout;
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    let held: Vec<&Value> = rows.iter().filter(|row| row["blocks_retention"] == true).collect();
    assert!(matches!(held[..], [row] if row["subscription"] == "orders"), "{rows:?}");
    let forever = program.run(&["status", "--set", "outbox.shop.retention=forever"]).stdout;
    assert!(!forever.contains("retention"), "{forever}");
}

#[test]
fn doctor_and_migrate_up_name_a_dropped_table_and_do_not_report_the_schema_as_up_to_date() {
    let program = shop::delivered();
    shop::run_sql(&program, "DROP TABLE postrider_events");
    let ran = program.run(&["migrate", "up"]);
    assert_eq!(ran.exit, Some(4), "{ran:?}");
    assert!(ran.stderr.contains("postrider_events missing from the SQLite file"), "{ran:?}");
    assert!(ran.stderr.contains("restore the table from a backup"), "{ran:?}");

    let ran = program.run(&["doctor", "--json"]);
    let findings: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let finding = findings.iter().find(|finding| finding["code"] == "PD-0103").unwrap();
    assert_eq!((&finding["outcome"], &finding["check"]), (&"fail".into(), &"schema current".into()));
    assert!(finding["fix"].as_str().unwrap().contains("restore the table from a backup"), "{finding}");
}

#[test]
fn a_relay_whose_tables_were_recreated_asks_for_a_restart() {
    let program = shop::delivered();
    let mut command = program.command(&["relay", "--set", "subscription.orders.lease=1s"]);
    command.stderr(Stdio::piped());
    let mut relay = Running::start(command);
    until(|| (shop::status(&program)["state"] == "leading").then_some(()));
    shop::run_sql(
        &program,
        "DROP VIEW postrider_events_json; DROP TABLE postrider_events; DROP TABLE postrider_subscriptions;
         DROP TABLE postrider_parked; DROP TABLE postrider_leases; DROP TABLE postrider_relays; DROP TABLE postrider_migrations",
    );
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let said = relay.until_it_says("restart the relay");
    assert!(said.contains("there is no subscription \"orders\""), "{said}");
}

#[test]
fn status_reports_a_destination_that_is_down_a_standby_relay_and_an_expired_lease() {
    let program = shop::ready();
    // No process listens on this port.
    let sink = [
        "sink.out.type=webhook",
        "sink.out.url=http://127.0.0.1:9/",
        "sink.out.allow_private=true",
        "subscription.orders.lease=2s",
        "subscription.orders.backoff_min=10ms",
        "subscription.orders.probe_min=10ms",
    ];
    let set: Vec<&str> = sink.iter().flat_map(|key| ["--set", key]).collect();
    let relay = |name: &str| {
        let name = format!("relay.name={name}");
        let mut command = program.command(&[&["relay", "--set", &name][..], &set].concat());
        command.stderr(Stdio::null());
        Running::start(command)
    };
    let first = relay("first");
    until(|| (shop::status(&program)["state"] == "leading").then_some(()));
    let second = relay("second");
    let status = until(|| {
        let status = shop::status(&program);
        let down = !status["destinations_down"].as_array().unwrap().is_empty();
        (down && !status["standby"].as_array().unwrap().is_empty()).then_some(status)
    });
    let down = &status["destinations_down"][0];
    assert!(down["error"].as_str().unwrap().contains("127.0.0.1:9"), "{status}");
    assert!(down["since"].as_str().unwrap() <= down["next_probe_at"].as_str().unwrap(), "{status}");
    assert!(status["standby"][0].as_str().unwrap().starts_with("second"), "{status}");
    let table = program.run(&["status"]).stdout;
    assert!(table.contains("is DOWN since "), "{table}");
    assert!(table.contains("next retry in ") || table.contains("retried since"), "{table}");
    assert!(table.contains("standby: second"), "{table}");
    let (found, _) = diagnosed(&program, &set, "PD-0220");
    assert_eq!(found, "warn");

    drop(second);
    drop(first);
    until(|| (shop::status(&program)["state"] == "no_relay").then_some(()));
    let table = program.run(&["status"]).stdout;
    assert!(table.contains("no relay: the lease of ") && table.contains(" expired "), "{table}");
}
