//! Every state that `postrider explain` knows of a row with a state of its own, produced by a real relay and a real endpoint.

use postrider_testkit::servers::endpoint::{Endpoint, SECRET};

use crate::cleanup::json;
use crate::explain_walk::{Open, config_of, is, ok, relay, state};
use crate::program::Program;
use crate::shop::{self, Running, until};

/// A table with a state per row, which does not exist yet.
pub(crate) struct RowWalk<'a> {
    pub(crate) layout: &'a str,
    /// The keys of `[outbox.shop]` without the layout.
    pub(crate) outbox: &'a str,
    /// The table in SQL.
    pub(crate) table: &'a str,
    pub(crate) sql: &'a dyn Fn(&Program, &str),
    /// Executes a statement in a transaction that stays open. SQLite does not show who writes.
    pub(crate) open: Option<&'a dyn Fn(&str) -> Open>,
}

impl RowWalk<'_> {
    /// The id of a row.
    fn id(&self, number: u32) -> String {
        match self.layout {
            "outbox" => format!("00000000-0000-7000-8000-{number:012}"),
            _ => number.to_string(),
        }
    }

    /// `more`: further columns with their values.
    fn insert(&self, number: u32, kind: &str, key: &str, more: &[(&str, &str)]) -> String {
        let uuid = |text: &str| format!("00000000-0000-7000-8000-{text:0>12}");
        let (id, event, model) = (self.id(number), uuid(&number.to_string()), uuid(key));
        let mut columns = match self.layout {
            "event_outbox" => {
                vec![
                    ("event_key", event),
                    ("entity_table", "orders".to_owned()),
                    ("entity_pk", key.to_owned()),
                ]
            }
            "outbox" => vec![
                ("aggregate_type", "Order".to_owned()),
                ("aggregate_id", model),
                ("topic", "orders".to_owned()),
            ],
            _ => vec![("aggregate_type", "Order".to_owned()), ("aggregate_id", key.to_owned())],
        };
        columns.extend([("id", id), ("event_type", kind.to_owned()), ("payload", "{}".to_owned())]);
        columns.extend(more.iter().map(|(column, value)| (*column, (*value).to_owned())));
        let (names, values): (Vec<_>, Vec<_>) =
            columns.into_iter().map(|(name, value)| (name, format!("'{value}'"))).unzip();
        format!("INSERT INTO {} ({}) VALUES ({})", self.table, names.join(", "), values.join(", "))
    }

    fn write(&self, program: &Program, number: u32, kind: &str, key: &str, more: &[(&str, &str)]) -> String {
        (self.sql)(program, &self.insert(number, kind, key, more));
        self.id(number)
    }
}

/// Returns without an endpoint.
pub(crate) fn every_state_of_a_row_is_produced_and_explained(walk: &RowWalk<'_>) {
    let Some(endpoint) = Endpoint::private() else { return };
    let outbox = format!("{}\nlayout = '{}'", walk.outbox, walk.layout);
    let program = Program::with_config(&config_of(&outbox, &endpoint, false)).file("secret.txt", SECRET);
    ok(&program, &["migrate", "up"]);
    rows_of_other_programs(walk, &program);
    let running = relay(&program);
    failed_and_parked_rows(walk, &program);
    a_destination_that_is_down(walk, &program, &endpoint);
    decisions(walk, &program);
    a_relay_that_was_killed_and_a_pause(walk, &program, running);
    if let Some(open) = walk.open {
        let transaction = open(&walk.insert(30, "good", "z", &[]));
        let answer = json(&program.run(&["explain", &walk.id(30), "--json"]));
        assert_eq!(answer[0]["absent"], "transaction_open", "{answer}");
        drop(transaction);
        until(|| {
            (json(&program.run(&["explain", &walk.id(30), "--json"]))[0]["absent"] == "unknown").then_some(())
        });
    }
}

/// Rows 1 to 4, as another publisher leaves them. A layout has only some of these states.
fn rows_of_other_programs(walk: &RowWalk<'_>, program: &Program) {
    let (given_up, scheduled, marked): (&[_], Option<&[_]>, Option<&[_]>) = match walk.layout {
        "event_outbox" => (
            &[("status", "failed"), ("attempts", "10"), ("next_attempt_at", "9999-12-31")],
            Some(&[("status", "failed"), ("attempts", "1"), ("next_attempt_at", "2999-01-01")]),
            None,
        ),
        "outbox" => (&[("status", "failed"), ("retry_count", "5")], None, None),
        _ => (
            &[("status", "FAILED"), ("attempt_count", "10")],
            None,
            Some(&[("status", "PUBLISHING"), ("attempt_count", "1")]),
        ),
    };
    let id = walk.write(program, 1, "good", "1", given_up);
    walk.write(program, 2, "good", "2", &[]);
    let started = relay(program);
    is(program, (&walk.id(2), "orders"), "delivered", &["delivered before 20"]);
    is(program, (&id, "orders"), "given_up_elsewhere", &["was given up by another program after "]);
    if let Some(columns) = scheduled {
        let id = walk.write(program, 3, "good", "3", columns);
        is(program, (&id, "orders"), "scheduled", &["leased by relay \"walker#"]);
    }
    if let Some(columns) = marked {
        let id = walk.write(program, 4, "good", "4", columns);
        is(program, (&id, "orders"), "being_published", &["marked as being published"]);
    }
    started.signal("TERM");
    assert_eq!(started.end().0, Some(0));
}

/// Rows 5 to 10.
fn failed_and_parked_rows(walk: &RowWalk<'_>, program: &Program) {
    let dead = walk.write(program, 5, "refused", "b", &[]);
    is(program, (&dead, "orders"), "dead", &["dead: given up ", "answered 422"]);
    let retried = walk.write(program, 7, "busy", "c", &[]);
    is(program, (&retried, "orders"), "retry", &["retry ", " is due in ", "answered 503"]);
    let id = walk.write(program, 8, "good", "c", &[]);
    is(program, (&id, "orders"), "behind", &["in state retry after error", "answered 503"]);
    let id = walk.write(program, 9, "lost", "d", &[]);
    is(program, (&id, "orders"), "unrouted", &["no routing rule matches it; add a rule"]);
    let id = walk.write(program, 10, "", "e", &[]);
    is(program, (&id, "orders"), "damaged", &["its row is damaged and cannot be read: \""]);
}

/// Row 11. A row that waits for its destination looks due in the table.
fn a_destination_that_is_down(walk: &RowWalk<'_>, program: &Program, endpoint: &Endpoint) {
    endpoint.kill();
    let id = walk.write(program, 11, "good", "f", &[]);
    let address = format!("127.0.0.1:{}", endpoint.port());
    let down =
        ["waits to be read; ", "; destination \"", address.as_str(), " is down since 20", "next probe "];
    is(program, (&id, "orders"), "backlog", &down);
    endpoint.start();
    is(program, (&id, "orders"), "delivered", &[]);
}

/// Of rows that failed.
fn decisions(walk: &RowWalk<'_>, program: &Program) {
    ok(program, &["dead", "discard", &walk.id(5), "--yes", "--reason", "test data"]);
    let by = |action: &'static str| ["never delivered: \"", action, ": \"test data\""];
    is(program, (&walk.id(5), "orders"), "discarded", &by("\" used `discard` at 20"));
    ok(program, &["parked", "skip", &walk.id(9), "--yes", "--reason", "test data"]);
    is(program, (&walk.id(9), "orders"), "discarded", &by("\" used `skip` at 20"));
}

/// Row 27.
fn a_relay_that_was_killed_and_a_pause(walk: &RowWalk<'_>, program: &Program, running: Running) {
    running.signal("KILL");
    running.end();
    let id = walk.write(program, 27, "good", "g", &[]);
    let ended = ["waits to be read; ", "no relay is running: the lease of \"walker#", " s ago"];
    is(program, (&id, "orders"), "backlog", &ended);
    assert_eq!(state(program, &id, "orders")["hindrance"]["what"], "no_relay");
    ok(program, &["pause", "orders", "--reason", "stock taking"]);
    let paused = ["the subscription is paused by \"", ": \"stock taking\"; to continue: `postrider resume`"];
    is(program, (&id, "orders"), "backlog", &paused);
    ok(program, &["resume", "orders"]);
    let running = relay(program);
    is(program, (&id, "orders"), "delivered", &[]);
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
}

#[test]
fn every_state_of_a_row_is_produced_and_explained_on_sqlite_except_an_open_transaction() {
    every_state_of_a_row_is_produced_and_explained(&RowWalk {
        layout: "outbox_events",
        outbox: "url = 'sqlite:shop.db'",
        table: "outbox_events",
        sql: &shop::run_sql,
        open: None,
    });
}
