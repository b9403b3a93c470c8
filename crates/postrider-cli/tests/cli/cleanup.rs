//! `postrider cleanup`, as an operator uses it.

use rusqlite::Connection;
use serde_json::Value;

use crate::program::{Program, Ran};
use crate::shop;

pub(crate) const TIME: &str = "2020-01-01T00:00:00Z";

pub(crate) fn json(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// An outbox of the default layout, and how to change and count its rows.
pub(crate) struct LogCase<'a> {
    pub(crate) program: &'a Program,
    pub(crate) sql: &'a dyn Fn(&str),
    pub(crate) number: &'a dyn Fn(&str) -> i64,
    pub(crate) events: &'a str,
    /// 2019-12-31T23:59:59.999999Z and TIME, as values of the column `time`.
    pub(crate) times: [&'a str; 2],
}

fn write(program: &Program, payload: &str) {
    let ran =
        program.run(&["write", "--type", "order.placed", "--aggregate", "Order:42", "--payload", payload]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

/// Position 2 is dead, 3 to 6 are delivered, 7 is not, and the subscription `slow` begins at 6.
pub(crate) fn delivered_events_are_deleted_and_everything_else_stays(case: &LogCase<'_>) {
    let LogCase { program, sql, number, events, times: [old, limit] } = case;
    write(program, "1");
    write(program, "2\n2");
    let ran = program.run(&["relay", "--drain", "--set", "sink.out.encoder=plain"]);
    assert_eq!(ran.exit, Some(1), "{ran:?}");
    for payload in ["3", "4", "5", "6"] {
        write(program, payload);
    }
    // The events behind the dead one are of its key, and are delivered: it was given up.
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    write(program, "7");
    sql(&format!("UPDATE {events} SET time = {old}"));
    sql(&format!("UPDATE {events} SET time = {limit} WHERE position = 5"));
    let ran = program.run(&["subscriptions", "add", "slow", "--start", "position:6"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    let count = || number(&format!("SELECT count(*) FROM {events}"));

    let counted = json(&program.run(&["cleanup", "--before", TIME, "--dry-run", "--json"]));
    assert_eq!((&counted["matched"]["events"], &counted["deleted"]), (&3.into(), &0.into()), "{counted}");
    let asked = program.run(&["cleanup", "--before", TIME]);
    assert_eq!(asked.exit, Some(2), "{asked:?}");
    assert!(asked.stderr.contains("3 delivered event(s) from before 2020-01-01"), "{asked:?}");
    assert!(asked.stderr.contains("subscription slow still needs events"), "{asked:?}");
    assert!(asked.stderr.contains("add --yes"), "{asked:?}");
    assert_eq!(count(), 7, "a count changes nothing");
    let audit = json(&program.run(&["audit", "list", "--json"]));
    assert!(audit.as_array().unwrap().iter().all(|entry| entry["action"] != "cleanup"), "{audit}");

    let args = ["cleanup", "--before", TIME, "--yes", "--reason", "disk\u{1b}[2J full", "--json"];
    let cleaned = json(&program.run(&args));
    assert_eq!(cleaned["deleted"], 3, "{cleaned}");
    let stays = format!("SELECT count(*) FROM {events} WHERE position IN (2, 5, 6, 7)");
    assert_eq!((count(), number(&stays)), (4, 4), "parked, not older, and needed by slow");
    let audit = json(&program.run(&["audit", "list", "--json"]));
    let entry = &audit[0];
    assert_eq!((&entry["action"], &entry["events"]), (&"cleanup".into(), &3.into()), "{audit}");
    assert_eq!((&entry["targets"], &entry["reason"]), (&"1 3-4".into(), &"disk [2J full".into()), "{audit}");
    assert_eq!(entry["selection"], "before 2020-01-01T00:00:00.000000Z");
    assert!(entry["made_by"].as_str().unwrap().contains('@'), "{audit}");

    let again = program.run(&["cleanup", "--before", TIME, "--yes"]);
    assert!(again.exit == Some(0) && again.stderr.contains("nothing was deleted"), "{again:?}");
    // The rest of the outbox works as before.
    assert_eq!(json(&program.run(&["dead", "list", "--json"]))[0]["event"], Value::Null);
    assert_eq!(json(&program.run(&["dead", "list", "--json"])).as_array().unwrap().len(), 1);
    let ran = program.run(&["relay", "--drain"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
}

#[test]
fn delivered_events_are_deleted_by_hand() {
    let program = Program::with_config(shop::GOOD);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    delivered_events_are_deleted_and_everything_else_stays(&LogCase {
        program: &program,
        sql: &|sql| shop::run_sql(&program, sql),
        number: &|sql| shop::number(&program, sql),
        events: "postrider_events",
        times: ["1577836799999999", "1577836800000000"],
    });
}

#[test]
fn a_time_in_the_future_or_without_meaning_is_refused() {
    let program = shop::delivered();
    let ran = program.run(&["cleanup", "--before", "2999-01-01T00:00:00Z", "--yes"]);
    assert_eq!(ran.exit, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("is in the future") && ran.stderr.contains("nothing was deleted"), "{ran:?}");
    for wrong in ["yesterday", "", "2020-13-01T00:00:00Z"] {
        let ran = program.run(&["cleanup", "--before", wrong, "--yes"]);
        assert!(ran.exit == Some(2) && ran.stderr.contains("use a time such as"), "{ran:?}");
    }
    assert_eq!(program.run(&["cleanup", "--yes"]).exit, Some(2));
    assert_eq!(shop::events(&program), 1);
}

fn rows_program(keys: &str) -> Program {
    let program = Program::with_config(&format!(
        "[outbox.shop]\nurl = 'sqlite:shop.db'\nlayout = 'outbox_events'\n{keys}[sink.out]\ntype = 'file'\n\
         path = 'events.jsonl'\n[subscription.orders]\nsink = 'out'\nstart = 'beginning'\n"
    ));
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    program
}

/// Row 1 was delivered by another program, 2 and 3 by Postrider, 4 waits.
fn with_rows(keys: &str) -> Program {
    let program = rows_program(keys);
    let insert = "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload, status)
                  VALUES ('Order', '1', 'order.placed', '{}', ";
    shop::run_sql(&program, &format!("{insert} 'PUBLISHED');"));
    shop::run_sql(&program, &format!("{insert} 'PENDING'); {insert} 'PENDING');"));
    assert_eq!(program.run(&["relay", "--drain"]).exit, Some(0));
    shop::run_sql(
        &program,
        &format!(
            "{insert} 'PENDING');
             UPDATE outbox_events SET created_at = '2019-01-01 00:00:00';
             UPDATE postrider_row_done SET done_at = 1577836799999999;
             UPDATE postrider_row_done SET done_at = 1577836800000000 WHERE row_id = '3'"
        ),
    );
    program
}

fn rows_left(program: &Program) -> Vec<i64> {
    let file = Connection::open(program.path().join("shop.db")).unwrap();
    let mut rows = file.prepare("SELECT id FROM outbox_events ORDER BY id").unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn only_our_own_rows_that_were_delivered_before_the_time_are_deleted() {
    let program = with_rows("retention = '9000d'\n");
    let counted = json(&program.run(&["cleanup", "--before", TIME, "--dry-run", "--json"]));
    assert_eq!(counted["matched"]["events"], 1, "{counted}");
    assert_eq!(rows_left(&program), [1, 2, 3, 4], "a count changes nothing");
    assert_eq!(shop::number(&program, "SELECT count(*) FROM postrider_row_done"), 2);
    let cleaned = json(&program.run(&["cleanup", "--before", TIME, "--yes", "--json"]));
    assert_eq!(cleaned["deleted"], 1, "{cleaned}");
    assert_eq!(rows_left(&program), [1, 3, 4]);
    let audit = json(&program.run(&["audit", "list", "--json"]));
    assert_eq!((&audit[0]["action"], &audit[0]["events"]), (&"cleanup".into(), &1.into()), "{audit}");
    assert!(audit[0]["selection"].as_str().unwrap().contains("delivered by Postrider"), "{audit}");
}

#[test]
fn rows_of_other_programs_are_deleted_only_if_the_configuration_says_so() {
    let program = with_rows("retention = '9000d'\nretention_scope = 'all'\n");
    let cleaned = json(&program.run(&["cleanup", "--before", TIME, "--yes", "--json"]));
    // This table has no time of delivery: its age counts from the creation.
    assert_eq!((&cleaned["deleted"], rows_left(&program)), (&3.into(), vec![4]), "{cleaned}");
}

#[test]
fn without_a_retention_no_row_of_a_table_is_ours_to_delete() {
    let program = with_rows("");
    let ran = program.run(&["cleanup", "--before", TIME, "--yes"]);
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("only rows that a relay delivered while a retention was configured"),
        "{ran:?}"
    );
    assert_eq!(rows_left(&program), [1, 2, 3, 4]);
}
