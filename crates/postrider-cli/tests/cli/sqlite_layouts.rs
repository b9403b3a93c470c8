//! A table of another layout in a SQLite file, from the command line.

use rusqlite::Connection;

use crate::program::Program;
use crate::story::{assert_printed_id, delivered, drain_rows, write_order};

fn program(layout: &str) -> Program {
    program_with(layout, "")
}

fn program_with(layout: &str, keys: &str) -> Program {
    Program::with_config(&format!(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\nlayout = '{layout}'\n{keys}[sink.out]\ntype = 'file'\n\
         path = 'events.jsonl'\n[subscription.orders]\nsink = 'out'\nstart = 'beginning'\n"
    ))
}

#[test]
fn rows_written_by_another_program_are_delivered_and_listed() {
    let program = program("outbox_events");
    let file = program.path().join("shop.db");
    // The table already exists.
    let theirs = Connection::open(&file).unwrap();
    theirs
        .execute_batch(
            "CREATE TABLE outbox_events (
                 id INTEGER PRIMARY KEY AUTOINCREMENT, aggregate_type TEXT NOT NULL, aggregate_id TEXT NOT NULL,
                 event_type TEXT NOT NULL, payload TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'PENDING',
                 created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, last_attempt_at TIMESTAMP,
                 attempt_count INTEGER NOT NULL DEFAULT 0);
             INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
             VALUES ('Order', '1', 'order.placed', '{}'), ('Order', '2', 'order.placed', 'no JSON');",
        )
        .unwrap();
    let made = program.run(&["migrate", "up"]);
    assert_eq!(made.exit, Some(0), "{made:?}");
    assert!(made.stderr.contains("index \"idx_outbox_events_status\" is missing"), "{made:?}");
    assert!(program.run(&["migrate", "up"]).stderr.contains("shop: up to date, schema 6"));
    let written = write_order(&program, "{}");
    assert_eq!(written.exit, Some(0), "{written:?}");
    drain_rows(&program, 3);
    assert_printed_id(&written, delivered(&program).lines().last().unwrap());
    let left = "SELECT count(*) FROM outbox_events WHERE status <> 'PUBLISHED'";
    assert_eq!(theirs.query_row(left, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    let doctor = program.run(&["doctor"]);
    assert!(doctor.stdout.contains("no row is marked as PUBLISHING by another publisher"), "{doctor:?}");
    assert!(doctor.stdout.contains("index \"idx_outbox_events_status\" is missing"), "{doctor:?}");
}

fn left(program: &Program) -> i64 {
    let file = Connection::open(program.path().join("shop.db")).unwrap();
    file.query_row("SELECT count(*) FROM outbox_events", [], |row| row.get(0)).unwrap()
}

#[test]
fn retention_announces_what_it_will_delete_and_deletes_nothing_by_default() {
    for (keys, reported) in [
        ("", None),
        (
            "retention = '7d'\n",
            Some("outbox_events that Postrider delivers from now on are deleted 7d after"),
        ),
        (
            "retention = '7d'\nretention_scope = 'all'\n",
            Some("outbox_events are deleted 7d after their creation, including those"),
        ),
    ] {
        let program = program_with("outbox_events", keys);
        let made = program.run(&["migrate", "up"]);
        let doctor = program.run(&["doctor"]);
        let drained = program.run(&["relay", "--drain"]);
        for (where_to, text) in
            [("migrate up", &made.stderr), ("doctor", &doctor.stdout), ("relay", &drained.stderr)]
        {
            match reported {
                Some(reported) => assert!(text.contains(reported), "{where_to}: {text}"),
                None => assert!(!text.contains("are deleted"), "{where_to}: {text}"),
            }
        }
        assert!(doctor.stdout.contains("PD-0151"), "{doctor:?}");
        assert_eq!((drained.exit, left(&program)), (Some(0), 0), "{drained:?}");
    }
}

#[test]
fn a_layout_that_does_not_exist_on_sqlite_is_refused() {
    for layout in ["outbox", "event_outbox", "eventlog"] {
        let refused = program(layout).run(&["status"]);
        let says = format!("layout {layout} does not exist for SQLite");
        assert!(refused.exit != Some(0) && refused.stderr.contains(&says), "{refused:?}");
    }
    let made = program("outbox_events").run(&["migrate", "up", "--with", "aggregate-index"]);
    assert!(made.exit != Some(0) && made.stderr.contains("no optional index"), "{made:?}");
}
