//! `postrider inbox clean`, and the retention of the inbox in the configuration.

use crate::program::Program;
use crate::shop;

#[test]
fn expired_inbox_rows_are_deleted_on_request_and_counted() {
    let program = Program::with_config(shop::GOOD);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let days =
        |days: i32| format!("CAST((julianday('now') + {days} - 2440587.5) * 86400000 AS INTEGER) * 1000");
    let row = |group: &str, processed: i32, expires: i32| {
        format!(
            "INSERT INTO postrider_inbox (consumer_group, event_id, processed_at, expires_at)
             VALUES ('{group}', '019a0000-0000-7000-8000-000000000000', {}, {});",
            days(processed),
            days(expires)
        )
    };
    shop::run_sql(&program, &[row("old", -40, -10), row("young", -40, 10), row("early", -2, -1)].concat());
    let doctor = program.run(&["doctor"]);
    assert!(doctor.stdout.contains("1 row(s) expired more than a day ago and are not deleted"), "{doctor:?}");
    let cleaned = program.run(&["inbox", "clean"]);
    assert!(cleaned.stderr.contains("shop: deleted 1 expired row(s) of the inbox"), "{cleaned:?}");
    let doctor = program.run(&["doctor"]);
    assert!(!doctor.stdout.contains("expired more than a day ago"), "{doctor:?}");
    let again = program.run(&["inbox", "clean", "--outbox", "shop"]);
    assert!(again.stderr.contains("shop: deleted 0 expired row(s) of the inbox"), "{again:?}");
}

#[test]
fn an_inbox_retention_shorter_than_the_retention_of_events_is_refused() {
    let program = Program::with_config(shop::GOOD);
    let refused = program.run(&["config", "check", "--set", "outbox.shop.inbox_retention=6d"]);
    assert_ne!(refused.exit, Some(0), "{refused:?}");
    assert!(
        refused.stderr.contains("the inbox is kept for 6d, but the events of this outbox for 7d"),
        "{refused:?}"
    );
    let kept = program.run(&["config", "check", "--set", "outbox.shop.inbox_retention=7d"]);
    assert_eq!(kept.exit, Some(0), "{kept:?}");
}
