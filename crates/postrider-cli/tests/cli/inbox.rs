//! `postrider inbox clean`, and the retention of the inbox in the configuration.

use serde_json::Value;

use crate::program::{Program, Ran};
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

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.exit, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

/// A group that tries to write to the terminal.
pub(crate) const HOSTILE: &str = "b/\u{1b}[2J'\"\n";

/// An id with this number.
pub(crate) fn id(number: u32) -> String {
    format!("019a0000-0000-7000-8000-{number:012}")
}

/// Messages 1 to 3 were processed by `a`, 2 by `c`, and 2 and 3 by a group with a hostile name.
pub(crate) const PROCESSED: [(&str, u32); 6] =
    [("a", 1), ("a", 2), ("a", 3), (HOSTILE, 2), (HOSTILE, 3), ("c", 2)];

fn seen(page: &Value) -> Vec<(String, String)> {
    let text = |item: &Value, field: &str| item[field].as_str().unwrap().to_owned();
    page["items"].as_array().unwrap().iter().map(|item| (text(item, "consumer"), text(item, "id"))).collect()
}

/// Lists the rows of [`PROCESSED`], of which message 1 was processed in 2019 and the others in 2021.
pub(crate) fn processed_messages_are_listed_page_by_page(program: &Program, table: &str) {
    let mut wanted: Vec<(String, String)> =
        PROCESSED.iter().map(|(group, number)| ((*group).to_owned(), id(*number))).collect();
    wanted.sort();
    let (mut found, mut after, mut pages) = (Vec::new(), None::<String>, 0);
    loop {
        let mut args = vec!["inbox", "list", "--limit", "2", "--json"];
        if let Some(after) = &after {
            args.extend(["--after", after]);
        }
        let page = json(&program.run(&args));
        assert!(page["items"].as_array().unwrap().iter().all(|item| item["table"] == table), "{page}");
        found.extend(seen(&page));
        pages += 1;
        after = page["next"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, 4, "three full pages, and one that is empty");
    found.sort();
    assert_eq!(found, wanted, "complete, without repeats");

    let page = json(&program.run(&[
        "inbox",
        "list",
        "--consumer",
        "a",
        "--since",
        "2020-01-01T00:00:00Z",
        "--json",
    ]));
    assert_eq!(seen(&page), [("a".to_owned(), id(2)), ("a".to_owned(), id(3))], "{page}");
    let page = json(&program.run(&["inbox", "list", "--until", "2020-01-01T00:00:00Z", "--json"]));
    assert_eq!(seen(&page), [("a".to_owned(), id(1))], "{page}");
    assert!(page["items"][0]["processed_at"].as_str().unwrap().starts_with("2019-06-01T00:00:00"), "{page}");

    let mut shown = seen(&json(&program.run(&["inbox", "show", &id(2), "--json"])));
    shown.sort();
    assert_eq!(shown, [("a".to_owned(), id(2)), (HOSTILE.to_owned(), id(2)), ("c".to_owned(), id(2))]);
    let nothing = program.run(&["inbox", "show", &id(9)]);
    assert!(nothing.exit == Some(0) && nothing.stdout.contains("no consumer has processed"), "{nothing:?}");
    // A terminal is not controlled by the name of a group, in the table or in the line about the next page.
    let printed = program.run(&["inbox", "list", "--limit", "5"]);
    assert!(printed.stdout.contains("b/ [2J"), "{printed:?}");
    assert!(!printed.stdout.contains('\u{1b}') && !printed.stderr.contains('\u{1b}'), "{printed:?}");
    let wrong = program.run(&["inbox", "list", "--after", "nonsense"]);
    assert!(wrong.exit == Some(2) && wrong.stderr.contains("previous page"), "{wrong:?}");
    assert_eq!(program.run(&["inbox", "show", "nonsense"]).exit, Some(2));
}

/// The INSERTs of [`PROCESSED`]; `time` gives a value of the type of the columns.
pub(crate) fn inserts(
    table: &str,
    time: impl Fn(&str) -> String,
    id_value: impl Fn(&str) -> String,
) -> String {
    let insert = |(group, number): &(&str, u32)| {
        let year = if *number == 1 { "2019" } else { "2021" };
        format!(
            "INSERT INTO {table} (consumer_group, event_id, processed_at, expires_at)
             VALUES ('{}', {}, {}, {});",
            group.replace('\'', "''"),
            id_value(&id(*number)),
            time(&format!("{year}-06-01 00:00:00")),
            time("2099-01-01 00:00:00")
        )
    };
    PROCESSED.iter().map(insert).collect()
}

#[test]
fn processed_messages_are_listed() {
    let program = Program::with_config(shop::GOOD);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    let time = |text: &str| format!("unixepoch('{text}') * 1000000");
    shop::run_sql(&program, &inserts("postrider_inbox", time, |id| format!("'{id}'")));
    processed_messages_are_listed_page_by_page(&program, "inbox");
}
