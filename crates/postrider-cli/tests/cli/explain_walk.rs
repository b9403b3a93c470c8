//! Every state that `postrider explain` knows, produced by a real relay and a real endpoint.

use std::any::Any;
use std::net::TcpListener;
use std::process::Stdio;

use postrider_testkit::eventually_blocking;
use postrider_testkit::servers::endpoint::{Endpoint, SECRET};
use serde_json::Value;

use crate::cleanup::json;
use crate::program::Program;
use crate::shop::{self, Running, until};
use crate::webhook::endpoint_on;

/// A transaction that wrote an event and is open until this value is dropped.
pub(crate) type Open = Box<dyn Any>;

/// An outbox without tables yet, in the default layout, and how to change its rows.
pub(crate) struct Walk<'a> {
    /// The keys of `[outbox.shop]`.
    pub(crate) outbox: &'a str,
    pub(crate) sql: &'a dyn Fn(&Program, &str),
    /// The table of events.
    pub(crate) events: &'a str,
    /// A time of 2019, as a value of the column `time`.
    pub(crate) old: &'a str,
    /// Statements that assign the positions from 1 on again.
    pub(crate) reset: &'a [&'a str],
    /// Writes an event with this id in a transaction that stays open. SQLite does not show who writes.
    pub(crate) open: Option<&'a dyn Fn(&str) -> Open>,
    /// Whether the server remembers a statement after it ended. MariaDB does not unless it is configured to.
    pub(crate) shows_statement: bool,
}

const LEASE: &str = "lease = '2s'\nprobe_min = '100ms'\nprobe_max = '1s'\n";

/// `orders` has rules and several destinations, `plain` sends everything to the endpoint.
fn config(outbox: &str, endpoint: &Endpoint) -> String {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap();
    let sink = "type = 'webhook'\nallow_private = true\nsecret = 'file:secret.txt'\n";
    let good = format!("http://127.0.0.1:{}/hook", endpoint.port());
    let (busy, refusing) = (endpoint_on(busy, 503).0, endpoint_on(refusing, 422).0);
    let rule = |types: &str, url: &str| {
        format!("[[subscription.orders.rule]]\ntypes = ['{types}']\ndestination = '{url}'\n")
    };
    let plain = format!("[sink.hook]\n{sink}url = '{good}'\n[subscription.plain]\nsink = 'hook'\n{LEASE}");
    format!(
        "[relay]\nname = 'walker'\n[outbox.shop]\n{outbox}\n[sink.rules]\n{sink}{plain}\
         [subscription.orders]\nsink = 'rules'\nunrouted = 'park'\non_dead = 'block'\nseveral_destinations = true\n\
         read_ahead_events_max = 16\nbackoff_min = '1h'\nbackoff_max = '2h'\n{LEASE}{}{}{}",
        rule("good", &good),
        rule("busy", &busy),
        rule("refused", &refusing)
    )
}

fn ok(program: &Program, args: &[&str]) -> String {
    let ran = program.run(args);
    assert_eq!(ran.exit, Some(0), "{args:?}: {ran:?}");
    ran.stdout
}

/// Returns the id.
fn write(program: &Program, kind: &str, key: &str, more: &[&str]) -> String {
    let printed = ok(program, &[&["write", "--type", kind, "--key", key], more].concat());
    printed.strip_prefix("id=").unwrap().split_whitespace().next().unwrap().to_owned()
}

fn relay(program: &Program) -> Running {
    let mut command = program.command(&["relay"]);
    command.stderr(Stdio::null());
    Running::start(command)
}

/// The sentence about an event in a subscription, without the subscription's name. Empty before a relay created it.
fn sentence(program: &Program, event: &str, subscription: &str) -> String {
    let text = ok(program, &["explain", event]);
    let start = format!("{subscription}: ");
    text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_owned()
}

/// The same as fields.
fn state(program: &Program, event: &str, subscription: &str) -> Value {
    let all: Value = serde_json::from_str(&ok(program, &["explain", event, "--json"])).unwrap();
    let mut of = all[0]["subscriptions"].as_array().unwrap().iter();
    of.find(|of| of["subscription"] == subscription).cloned().unwrap_or_default()
}

/// Waits until the event is in this state and the sentence has these parts.
fn is(program: &Program, (event, subscription): (&str, &str), wanted: &str, parts: &[&str]) {
    let mut last = String::new();
    eventually_blocking(&format!("event {event} is {wanted} in {subscription}"), || {
        let (state, said) = (state(program, event, subscription), sentence(program, event, subscription));
        let now = format!("{} {said}", state["state"]);
        if last != now {
            println!("event {event} in {subscription}: {now}");
            last = now;
        }
        state["state"] == wanted && parts.iter().all(|part| said.contains(part))
    });
}

/// Returns without an endpoint.
pub(crate) fn every_state_is_produced_and_explained(walk: &Walk<'_>) {
    let Some(endpoint) = Endpoint::private() else { return };
    let program = Program::with_config(&config(walk.outbox, &endpoint)).file("secret.txt", SECRET);
    ok(&program, &["migrate", "up"]);
    let running = relay(&program);
    delivered_failed_and_parked_events(&program);
    a_destination_that_is_down(&program, &endpoint);
    decisions_of_operators(&program);
    a_relay_that_was_killed(&program, running);
    a_paused_subscription(&program);
    if let Some(open) = walk.open {
        an_open_transaction(walk, &program, open);
    }
    let running = damaged_and_replayed_events(walk, &program);
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
    removed_events(walk, &program);
    a_changed_history(walk, &program);
}

/// Events 1 to 7.
fn delivered_failed_and_parked_events(program: &Program) {
    let id = write(program, "good", "a", &[]);
    is(program, (&id, "orders"), "delivered", &["delivered before 20"]);
    is(program, ("1", "plain"), "delivered", &["delivered before 20"]);
    ok(program, &["subscriptions", "add", "late", "--start", "now"]);
    is(
        program,
        ("1", "late"),
        "below_start",
        &["not delivered: it is below the start of the subscription (subscribe by \"", "now)"],
    );
    write(program, "refused", "b", &[]);
    let dead = ["dead: given up ", " s ago after 1 attempts, last error \"", "answered 422", "dead retry"];
    is(program, ("2", "orders"), "dead", &dead);
    write(program, "good", "b", &[]);
    let behind = "waits behind event 2 of its key \"b\", which is in state dead after error \"";
    is(program, ("3", "orders"), "behind", &[behind, "answered 422", "; leased by relay \"walker#"]);
    write(program, "busy", "c", &[]);
    is(program, ("4", "orders"), "retry", &["retry ", " is due in ", " after error \"", "answered 503"]);
    write(program, "good", "c", &[]);
    let behind = "waits behind event 4 of its key \"c\", which is in state retry after error \"";
    is(program, ("5", "orders"), "behind", &[behind, "answered 503"]);
    write(program, "lost", "d", &[]);
    let leased = ["; leased by relay \"walker#", ", last seen ", " s ago"];
    is(
        program,
        ("6", "orders"),
        "unrouted",
        &["no routing rule matches it; add a rule", leased[0], leased[1]],
    );
    write(program, "good", "e", &["--expires-at", "2020-01-01T00:00:00Z"]);
    let expired = ["expired ", " s ago: its expires_at passed before it could be delivered"];
    is(program, ("7", "orders"), "expired", &expired);
    is(program, ("7", "plain"), "expired", &expired);
}

/// Events 8 to 19: more than a relay keeps in memory for a destination that is down, and than half of its read-ahead.
fn a_destination_that_is_down(program: &Program, endpoint: &Endpoint) {
    endpoint.kill();
    let line = |key| format!("{{\"type\": \"good\", \"key\": \"f{key}\", \"payload\": {{}}}}\n");
    let written = program.run_with(&["write", "--lines"], (8..20).map(line).collect::<String>().as_bytes());
    assert_eq!(written.exit, Some(0), "{written:?}");
    let address = format!("127.0.0.1:{}", endpoint.port());
    let down =
        ["; destination \"", address.as_str(), " is down since 20", " after error \"", "\", next probe "];
    let next = ["waits to be read; it is the next event"];
    is(program, ("8", "plain"), "backlog", &[&next[..], &down].concat());
    let held = until(|| {
        let parked = json(&program.run(&["parked", "list", "--subscription", "orders", "--json"]));
        let held = parked.as_array().unwrap().iter().find(|row| row["state"] == "held").cloned();
        held.map(|held| held["row"].as_str().unwrap().to_owned())
    });
    is(program, (&held, "orders"), "held", &[&["is held because destination "][..], &down].concat());
    endpoint.start();
    for (event, subscription) in [(held.as_str(), "orders"), ("8", "orders"), ("8", "plain"), ("19", "plain")]
    {
        is(program, (event, subscription), "delivered", &[]);
    }
}

/// Of events that failed.
fn decisions_of_operators(program: &Program) {
    ok(program, &["dead", "discard", "2", "--yes", "--reason", "test data"]);
    let by = |action: &'static str| ["never delivered: \"", action, " at 20", ": \"test data\""];
    is(program, ("2", "orders"), "discarded", &by("\" used `discard`"));
    is(program, ("3", "orders"), "delivered", &[]);
    ok(program, &["parked", "skip", "6", "--yes", "--reason", "test data"]);
    is(program, ("6", "orders"), "discarded", &by("\" used `skip`"));
}

/// Event 20.
fn a_relay_that_was_killed(program: &Program, running: Running) {
    running.signal("KILL");
    running.end();
    write(program, "good", "h", &[]);
    let ended =
        ["waits to be read; it is the next event; no relay is running: the lease of \"walker#", " s ago"];
    is(program, ("20", "orders"), "backlog", &ended);
    assert_eq!(state(program, "20", "orders")["hindrance"]["what"], "no_relay");
    is(program, ("20", "late"), "backlog", &["waits to be read; ", "; no relay is running"]);
}

/// Event 21. Paused before its relay starts: a relay that leads already would deliver until it reads the pause.
fn a_paused_subscription(program: &Program) {
    ok(program, &["pause", "orders", "--reason", "stock taking"]);
    write(program, "good", "g", &[]);
    let running = relay(program);
    is(program, ("21", "plain"), "delivered", &[]);
    let paused = [
        "waits to be read; 1 unfinished events are before it; the subscription is paused by \"",
        " since 20",
        ": \"stock taking\"; to continue: `postrider resume`",
    ];
    is(program, ("21", "orders"), "backlog", &paused);
    assert_eq!(state(program, "21", "orders")["hindrance"]["what"], "paused");
    ok(program, &["resume", "orders"]);
    is(program, ("21", "orders"), "delivered", &[]);
    running.signal("TERM");
    assert_eq!(running.end().0, Some(0));
}

/// Positions are assigned at once, so its position and its id are asked for before it is committed.
fn an_open_transaction(walk: &Walk<'_>, program: &Program, open: &dyn Fn(&str) -> Open) {
    let listed = json(&program.run(&["events", "list", "--limit", "1", "--json"]));
    let newest = listed[0]["id"].as_str().unwrap();
    let end = if newest.ends_with("000") { "111" } else { "000" };
    let id = format!("{}{end}", &newest[..newest.len() - 3]);
    let transaction = open(&id);
    for event in [id.as_str(), "22"] {
        let parts = ["its transaction may still be open: backend ", " of ", " since 20"];
        let statement = walk.shows_statement.then_some("last statement: INSERT INTO ");
        // MariaDB shows when it began only if no other process, such as another test, asks for it all the time.
        let mut said = String::new();
        eventually_blocking(&format!("the transaction of event {event} is shown"), || {
            said = ok(program, &["explain", event]);
            parts.iter().chain(&statement).all(|part| said.contains(part))
        });
        assert!(!said.contains("'late'"), "values are masked: {said}");
        let answer = json(&program.run(&["explain", event, "--json"]));
        assert_eq!(answer[0]["absent"], "transaction_open", "{answer}");
    }
    drop(transaction);
    until(|| ok(program, &["explain", "22"]).contains("its transaction was rolled back").then_some(()));
}

/// The next event, and event 1 again. Returns a relay that delivered both.
fn damaged_and_replayed_events(walk: &Walk<'_>, program: &Program) -> Running {
    let id = write(program, "good", "i", &[]);
    (walk.sql)(
        program,
        &format!("UPDATE {} SET action = '{{}}' WHERE type = 'good' AND position > 21", walk.events),
    );
    let damaged = "its row is damaged and cannot be read: \"";
    let position = json(&program.run(&["explain", &id, "--json"]))[0]["row"].as_str().unwrap().to_owned();
    is(program, (&position, "orders"), "damaged", &[damaged, "; no relay is running"]);
    ok(program, &["replay", "orders", "--from", "1", "--to", "1", "--yes"]);
    let again = "is delivered again now because an operator asked for a replay; no relay is running";
    is(program, ("1", "orders"), "retry", &[again]);
    let running = relay(program);
    is(program, ("1", "orders"), "delivered", &[]);
    // The relay gave it up; the reason stays.
    until(|| {
        let dead = json(&program.run(&["dead", "list", "--subscription", "orders", "--json"]));
        dead.as_array().unwrap().iter().any(|row| row["row"] == position.as_str()).then_some(())
    });
    is(program, (&position, "orders"), "damaged", &[damaged]);
    running
}

/// Event 1.
fn removed_events(walk: &Walk<'_>, program: &Program) {
    let id = write(program, "good", "j", &[]);
    let said = sentence(program, &id, "orders");
    assert!(said.ends_with("; no relay is running"), "it released its lease: {said}");
    (walk.sql)(program, &format!("UPDATE {} SET time = {} WHERE position = 1", walk.events, walk.old));
    // The event below its start is the highest that it knows, which stays.
    ok(program, &["subscriptions", "remove", "late", "--yes"]);
    ok(program, &["cleanup", "--before", "2020-01-01T00:00:00Z", "--yes"]);
    let said = ok(program, &["explain", "1"]);
    assert!(said.contains("the oldest one is of 20") && said.contains("removed by retention"), "{said}");
    let answer = json(&program.run(&["explain", "1", "--json"]));
    assert_eq!(answer[0]["absent"], "removed_by_retention", "{answer}");
}

/// Another event gets position 1, as on a replica that lacked the last commits.
fn a_changed_history(walk: &Walk<'_>, program: &Program) {
    (walk.sql)(program, &format!("DELETE FROM {}", walk.events));
    for statement in walk.reset {
        (walk.sql)(program, statement);
    }
    let id = write(program, "good", "k", &[]);
    let running = relay(program);
    let halted = "; the subscription is halted: \"";
    eventually_blocking("the event is explained by the halt", || {
        let said = sentence(program, &id, "orders");
        said.contains(halted) && said.contains("then run `postrider accept-history`")
    });
    assert_eq!(state(program, "1", "orders")["hindrance"]["what"], "halted");
    drop(running);
}

/// It shows no open transactions, so an event that is not committed yet cannot be explained by its transaction.
#[test]
fn every_state_is_produced_and_explained_on_sqlite_except_an_open_transaction() {
    every_state_is_produced_and_explained(&Walk {
        outbox: "url = 'sqlite:shop.db'",
        sql: &shop::run_sql,
        events: "postrider_events",
        old: "1546300800000000",
        reset: &["DELETE FROM sqlite_sequence WHERE name = 'postrider_events'"],
        open: None,
        shows_statement: false,
    });
}
