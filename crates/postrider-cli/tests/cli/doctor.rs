//! Checks of `doctor` that hold on every layout and database. Each fails when it should.

use crate::program::Program;
use crate::shop;
use crate::story::{found, found_with, start_relay};

fn warns(program: &Program, code: &str, said: &str) {
    let found = found(program, code);
    assert!(found.0 == "warn" && found.1.contains(said), "{code}: {found:?} without {said}");
}

#[test]
fn a_relay_with_other_settings_is_found_and_each_part_is_named() {
    let program = Program::with_config(shop::GOOD);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let relay = start_relay(&program);
    assert_eq!(found(&program, "PD-0211").0, "ok");
    for (flag, part) in [
        ("subscription.orders.max_attempts=3", "limits"),
        ("subscription.orders.unrouted=skip", "routing"),
        ("sink.out.encoder=plain", "sink"),
    ] {
        let (outcome, what) = found_with(&program, &["--set", flag], "PD-0211");
        assert!(
            outcome == "warn" && what.ends_with(&format!("has other {part} than this configuration")),
            "{what}"
        );
    }
    // What is read when the subscription is created is no difference.
    assert_eq!(found_with(&program, &["--set", "subscription.orders.start=now"], "PD-0211").0, "ok");
    let listed = program.run(&["status", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let settings = listed[0]["relays"][0]["settings"].as_str().unwrap_or_else(|| panic!("{listed}"));
    assert_eq!(settings.len(), 20, "{settings}");
    assert!(program.run(&["status"]).stdout.contains(settings));
    drop(relay);
}

/// The relay has died: its report is as it left it, but no longer valid.
#[test]
fn a_relay_of_another_version_is_found_while_its_report_is_valid() {
    let program = shop::delivered();
    let report = |version: &str, seconds: i64| {
        shop::run_sql(
            &program,
            &format!(
                "DELETE FROM postrider_relays;
                 INSERT INTO postrider_relays (subscription, relay, leads, seen_at, expires_at, facts)
                 SELECT 'orders', 'relay-2', 0, now.micros, now.micros + {seconds} * 1000000, '{{\"version\":\"{version}\"}}'
                 FROM (SELECT CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER) AS micros) AS now"
            ),
        );
    };
    report(env!("CARGO_PKG_VERSION"), 600);
    assert_eq!(found(&program, "PD-0211").0, "ok");
    report("9.9.9", 600);
    warns(&program, "PD-0211", "relay relay-2 has version 9.9.9 and not ");
}

/// Its expired rows and its key are checked on every layout.
#[test]
fn the_inbox_of_a_table_with_a_state_per_row_is_checked() {
    let program = Program::with_config(&shop::GOOD.replace("shop.db'", "shop.db'\nlayout = 'outbox_events'"));
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    assert_eq!(found(&program, "PD-0165").0, "ok");
    shop::run_sql(
        &program,
        "INSERT INTO postrider_inbox VALUES ('mail', '019a0000-0000-7000-8000-000000000000', 0, 1)",
    );
    warns(&program, "PD-0164", "1 row(s) expired");
}
