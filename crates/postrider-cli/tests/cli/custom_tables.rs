//! A user-defined table, by a map of its columns, from the command line.

use rusqlite::Connection;

use crate::program::Program;
use crate::shop::status;

fn program(keys: &str) -> Program {
    Program::with_config(&format!(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\nlayout = 'custom'\n{keys}\n[sink.out]\ntype = 'file'\n\
         path = 'events.jsonl'\n[subscription.orders]\nsink = 'out'\nstart = 'beginning'\n"
    ))
}

fn theirs(program: &Program, sql: &str) -> Connection {
    let connection = Connection::open(program.path().join("shop.db")).unwrap();
    connection.execute_batch(sql).unwrap();
    connection
}

#[test]
fn debeziums_outbox_is_delivered_and_not_modified() {
    let program = program("preset = 'debezium'\nretention = 'forever'");
    let theirs = theirs(
        &program,
        "CREATE TABLE outboxevent (id TEXT PRIMARY KEY, aggregatetype TEXT NOT NULL, aggregateid TEXT NOT NULL,
                                   type TEXT NOT NULL, payload TEXT);
         INSERT INTO outboxevent VALUES ('5e0d2d3e-1f1c-4b66-9a3a-0f8d0b3f8f10', 'Order', '7', 'order.placed', '{}');",
    );
    let made = program.run(&["migrate", "up"]);
    assert_eq!(made.exit, Some(0), "{made:?}");
    // On SQLite, the row number defines the order.
    assert!(!made.stderr.contains("no column defines the order"), "{made:?}");
    for _ in 0..2 {
        let drained = program.run(&["relay", "--drain"]);
        assert_eq!(drained.exit, Some(0), "{drained:?}");
    }
    let lines = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 1, "once: {lines}");
    assert!(
        lines.contains("5e0d2d3e-1f1c-4b66-9a3a-0f8d0b3f8f10") && lines.contains("order.placed"),
        "{lines}"
    );
    let left = theirs.query_row("SELECT count(*) FROM outboxevent", [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(left, 1);
    assert_eq!(status(&program)["backlog"]["events"], 0);
    let refused = program.run(&["write", "--type", "a", "--aggregate", "A:1", "--payload", "{}"]);
    assert!(
        refused.exit != Some(0) && refused.stderr.contains("use your program's own INSERT"),
        "{refused:?}"
    );
}

#[test]
fn a_table_with_custom_state_values_is_delivered_and_marked() {
    let program = program(
        "table = 'Shop'\ncolumns = { id = 'nr', type = 'kind', payload = 'body', order = 'nr', status = 'step' }\n\
         states = { pending = 'not yet', done = 'out' }",
    );
    let theirs = theirs(
        &program,
        "CREATE TABLE \"Shop\" (nr INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL,
                                step TEXT NOT NULL DEFAULT 'not yet');
         INSERT INTO \"Shop\" (kind, body) VALUES ('a', '1'), ('b', 'no JSON');
         INSERT INTO \"Shop\" (kind, body, step) VALUES ('c', '3', 'draft');",
    );
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0));
    let mut statement = theirs.prepare("SELECT step FROM \"Shop\" ORDER BY nr").unwrap();
    let steps: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(steps, ["out", "out", "draft"], "a row in an unknown state is not modified");
    let counted = program.run(&["status", "--by", "type", "--json"]);
    assert!(counted.exit == Some(0) && counted.stdout.contains("\"a\""), "{counted:?}");
}

#[test]
fn an_invalid_column_map_is_refused_with_the_reason() {
    for (keys, why) in [
        ("table = 'shop'", "no column is mapped for `id`"),
        (
            "preset = 'debezium'\ncolumns = { tpye = 'kind' }",
            "there is no field `tpye`; did you mean \"type\"?",
        ),
        ("preset = 'debezium'\ncolumns = { status = 's' }", "but `states` is not set"),
        ("preset = 'debezium'\nstates = { pending = 'a' }", "set the values for `pending` and `done`"),
        (
            "preset = 'debezium'\nstates = { pending = 'a', done = 'b', lost = 'c' }",
            "there is no state `lost`",
        ),
        ("preset = 'debezium'\ncolumns = { topic = 'a\"b' }", "cannot be the name of a column"),
        ("columns = { id = 'a', type = 'b', payload = 'c' }", "set the name of the `table`"),
        ("table = 'shop'\ncolumns = { id = 'a', payload = 'c' }", "the type of events is unknown"),
        ("preset = 'debezium'\nevent_type = 'order'", "the type of events is defined twice"),
        (
            "table = 'shop'\ncolumns = { id = 'a', payload = 'c' }\ntype_header = 'name'",
            "no column is mapped for `headers`",
        ),
        (
            "table = 'shop'\ncolumns = { id = 'a', payload = 'c' }\nevent_type = 'a'\ntype_header = 'name'",
            "already sets the type of all events",
        ),
        ("preset = 'debezium'\nalso_pending = ['RETRY']", "this key needs `states`"),
        (
            "preset = 'debezium'\ncolumns = { status = 's' }\nstates = { pending = 'a', done = 'b' }\nalso_pending = ['B']",
            "two states have the same value",
        ),
    ] {
        let refused = program(keys).run(&["config", "check"]);
        assert!(refused.exit != Some(0) && refused.stderr.contains(why), "{why:?} is not in {refused:?}");
    }
    let other = Program::with_config("[outbox.shop]\nurl = 'sqlite:shop.db'\npreset = 'debezium'\n");
    let refused = other.run(&["config", "check"]);
    assert!(refused.exit != Some(0) && refused.stderr.contains("outbox.shop.preset"), "{refused:?}");
}

#[test]
fn a_table_without_a_mapped_column_is_refused_and_nothing_is_created() {
    let program = program("preset = 'debezium'");
    let theirs =
        theirs(&program, "CREATE TABLE outboxevent (id TEXT PRIMARY KEY, type TEXT, payload INTEGER)");
    let refused = program.run(&["migrate", "up"]);
    assert!(refused.exit != Some(0), "{refused:?}");
    for why in [
        "has no column \"aggregatetype\"",
        "column outboxevent.payload is integer, but `payload` needs JSON, a text or bytes",
    ] {
        assert!(refused.stderr.contains(why), "{why:?} is not in {refused:?}");
    }
    let ours = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'postrider%'";
    assert_eq!(theirs.query_row(ours, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

#[test]
fn undelivered_events_can_be_moved_out_of_a_mapped_table_and_not_into_it() {
    let program = Program::with_config(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\nlayout = 'custom'\npreset = 'debezium'\n\
         [outbox.new]\nurl = 'sqlite:shop.db'\n[sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
         [subscription.orders]\noutbox = 'new'\nsink = 'out'\nstart = 'beginning'\n",
    );
    theirs(
        &program,
        "CREATE TABLE outboxevent (id TEXT PRIMARY KEY, aggregatetype TEXT NOT NULL, aggregateid TEXT NOT NULL,
                                   type TEXT NOT NULL, payload TEXT);
         INSERT INTO outboxevent VALUES ('5e0d2d3e-1f1c-4b66-9a3a-0f8d0b3f8f10', 'Order', '7', 'order.placed', '{}'),
                                        ('5e0d2d3e-1f1c-4b66-9a3a-0f8d0b3f8f11', 'Order', '8', 'order.placed', '{}');",
    );
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let refused = program.run(&["adopt", "--from", "new", "--to", "shop", "--dry-run"]);
    assert!(
        refused.exit != Some(0) && refused.stderr.contains("does not write to such tables"),
        "{refused:?}"
    );
    for moved in [2, 0] {
        let adopted =
            program.run(&["adopt", "--from", "shop", "--to", "new", "--start", "beginning", "--json"]);
        assert_eq!(adopted.exit, Some(0), "{adopted:?}");
        let reported: serde_json::Value = serde_json::from_str(&adopted.stdout).unwrap();
        assert_eq!(reported["moved"], moved, "{adopted:?}");
    }
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0));
    let lines = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.contains("5e0d2d3e-1f1c-4b66-9a3a-0f8d0b3f8f11"), "{lines}");
}

#[test]
fn a_table_without_an_order_column_is_refused_unless_order_is_none() {
    let program = program("preset = 'debezium'");
    // No column defines an order, and rows have no number.
    theirs(
        &program,
        "CREATE TABLE outboxevent (id TEXT PRIMARY KEY, aggregatetype TEXT NOT NULL, aggregateid TEXT NOT NULL,
                                   type TEXT NOT NULL, payload TEXT) WITHOUT ROWID;
         INSERT INTO outboxevent VALUES ('5e0d2d3e-1f1c-4b66-9a3a-0f8d0b3f8f10', 'Order', '7', 'order.placed', '{}');",
    );
    let made = program.run(&["migrate", "up"]);
    assert!(
        made.exit == Some(0) && made.stderr.contains("no column defines the order of rows with the same key"),
        "{made:?}"
    );
    let refused = program.run(&["relay", "--drain"]);
    assert!(refused.exit != Some(0) && refused.stderr.contains("PR-0351"), "{refused:?}");
    assert!(refused.stderr.contains("order = \"none\""), "{refused:?}");
    let drained = program.run(&["relay", "--drain", "--set", "subscription.orders.order=none"]);
    assert_eq!(drained.exit, Some(0), "{drained:?}");
    let lines = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 1, "{lines}");
}

#[test]
fn a_row_that_cannot_become_an_event_is_given_up_and_logged() {
    let columns = "id = 'nr', type = 'kind', payload = 'body', order = 'nr', headers = 'more'";
    let states = "states = { pending = 'new', done = 'out', failed = 'stuck' }";
    let program = program(&format!("table = 'shop'\ncolumns = {{ {columns}, status = 'step' }}\n{states}"));
    theirs(
        &program,
        "CREATE TABLE shop (nr INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL, more TEXT,
                            step TEXT NOT NULL DEFAULT 'new');
         INSERT INTO shop (kind, body, more) VALUES ('a', '1', NULL), ('b', 'P4YL0AD', 'no JSON'), ('c', '3', '{}');",
    );
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let drained = program.run(&["relay", "--drain"]);
    assert_eq!(drained.exit, Some(1), "{drained:?}");
    let line = drained.stderr.lines().find(|line| line.contains("event dead"));
    let line = line.unwrap_or_else(|| panic!("{drained:?}"));
    assert!(line.contains("WARN") && line.contains("headers") && line.contains('2'), "{line}");
    assert!(!drained.stderr.contains("P4YL0AD"), "{drained:?}");
    let lines = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 2, "{lines}");
}
