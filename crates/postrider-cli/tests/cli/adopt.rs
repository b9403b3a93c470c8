//! A table that moves into the layout `postrider` and back, in a SQLite file.

use std::process::Stdio;

use serde_json::Value;

use crate::program::{Program, Ran};
use crate::shop::{Running, number, run_sql, until};

const CONFIG: &str = "[outbox.old]\nurl = 'sqlite:shop.db'\nlayout = 'outbox_events'\n[outbox.new]\nurl = 'sqlite:shop.db'\n\
    [sink.out]\ntype = 'file'\npath = 'events.jsonl'\n\
    [subscription.orders]\noutbox = 'old'\nsink = 'out'\nstart = 'beginning'\n\
    [subscription.mail]\noutbox = 'new'\nsink = 'out'\nstart = 'now'\n";

const FORTH: [&str; 5] = ["adopt", "--from", "outbox_events", "--to", "postrider"];
const BACK: [&str; 5] = ["adopt", "--from", "postrider", "--to", "outbox_events"];

/// A program with both outboxes in one file, and this many rows in the old one.
fn program(rows: usize) -> Program {
    let program = Program::with_config(CONFIG);
    let made = program.run(&["migrate", "up"]);
    assert_eq!(made.exit, Some(0), "{made:?}");
    run_sql(
        &program,
        &format!(
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows})
             INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
             SELECT 'Order', n % 5, 'order.placed', '{{}}' FROM n"
        ),
    );
    program
}

fn run(program: &Program, direction: [&str; 5], more: &[&str]) -> Ran {
    program.run(&[&direction, more].concat())
}

/// Undelivered rows of the old one, and events of the new one.
fn there(program: &Program) -> (i64, i64) {
    (
        number(program, "SELECT count(*) FROM outbox_events WHERE status <> 'PUBLISHED'"),
        number(program, "SELECT count(*) FROM postrider_events"),
    )
}

/// Both outboxes in another database, with these keys.
pub(crate) fn both(old: &str, new: &str) -> Program {
    let program = Program::with_config(
        &CONFIG
            .replace(
                "[outbox.old]\nurl = 'sqlite:shop.db'\nlayout = 'outbox_events'",
                &format!("[outbox.old]\n{old}"),
            )
            .replace("[outbox.new]\nurl = 'sqlite:shop.db'", &format!("[outbox.new]\n{new}")),
    );
    let made = program.run(&["migrate", "up"]);
    assert_eq!(made.exit, Some(0), "{made:?}");
    program
}

/// Three rows move from a table, back into it, and are delivered from there.
pub(crate) fn three_rows_move_forth_and_back(program: &Program, layout: &str) {
    for [from, to] in [[layout, "postrider"], ["postrider", layout]] {
        let args = ["adopt", "--from", from, "--to", to, "--start", "beginning", "--json"];
        let subscription = if from == layout { "orders" } else { "mail" };
        let moved = program.run(&[&args[..], &["--subscription", subscription]].concat());
        assert_eq!(moved.exit, Some(0), "{from} to {to}: {moved:?}");
        let reported: Value = serde_json::from_str(&moved.stdout).unwrap();
        assert_eq!(
            (&reported["moved"], &reported["after"]["undelivered"]),
            (&3.into(), &0.into()),
            "{reported}"
        );
    }
    let drained = program.run(&["relay", "--drain"]);
    assert_eq!(drained.exit, Some(0), "{drained:?}");
    let lines = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
}

#[test]
fn a_table_moves_into_the_layout_postrider_and_its_events_are_delivered() {
    let program = program(12);
    run_sql(&program, "UPDATE outbox_events SET status = 'FAILED', attempt_count = 50 WHERE id = 12");
    let looked = run(&program, FORTH, &["--dry-run"]);
    assert_eq!(looked.exit, Some(0), "{looked:?}");
    assert!(looked.stdout.contains("undelivered") && looked.stdout.contains("11"), "{looked:?}");
    let refused = run(&program, FORTH, &[]);
    assert_eq!(refused.exit, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("PR-0330") && refused.stderr.contains("11 undelivered"), "{refused:?}");
    assert!(refused.stdout.contains("dead"), "the counts are printed: {refused:?}");
    assert_eq!(there(&program), (12, 0));
    let moved = run(&program, FORTH, &["--start", "beginning", "--batch", "5", "--json"]);
    assert_eq!(moved.exit, Some(0), "{moved:?}");
    assert!(moved.stderr.contains("dead, not moved: 1 event"), "{moved:?}");
    let reported: Value = serde_json::from_str(&moved.stdout).unwrap();
    assert_eq!((&reported["moved"], &reported["subscription"]), (&11.into(), &"orders".into()), "{reported}");
    assert_eq!(
        (&reported["before"]["undelivered"], &reported["after"]["undelivered"]),
        (&11.into(), &0.into())
    );
    assert_eq!(
        (&reported["after"]["given_up"], &reported["after"]["delivered"]),
        (&1.into(), &11.into()),
        "{reported}"
    );
    assert_eq!(there(&program), (1, 11));
    // The subscription of the new outbox begins "now", and was created before the events were copied.
    let drained = program.run(&["relay", "--drain"]);
    assert_eq!(drained.exit, Some(0), "{drained:?}");
    let lines = std::fs::read_to_string(program.path().join("events.jsonl")).unwrap();
    assert_eq!(lines.lines().count(), 11, "{lines}");
}

#[test]
fn events_of_the_layout_postrider_move_into_a_table_if_the_fields_to_leave_out_are_named() {
    let program = program(1);
    assert_eq!(run(&program, FORTH, &["--start", "beginning"]).exit, Some(0));
    for id in ["1", "2"] {
        let aggregate = format!("Order:{id}");
        let wrote = program.run(&[
            "write",
            "--outbox",
            "new",
            "--type",
            "order.paid",
            "--aggregate",
            &aggregate,
            "--payload",
            "{}",
            "--topic",
            "orders",
        ]);
        assert_eq!(wrote.exit, Some(0), "{wrote:?}");
    }
    let unfit = run(&program, BACK, &["--start", "beginning", "--leave-out", "producer"]);
    assert_eq!(unfit.exit, Some(6), "{unfit:?}");
    assert!(unfit.stderr.contains("PR-0332") && unfit.stderr.contains("2 of 3 events"), "{unfit:?}");
    assert!(unfit.stderr.contains("--leave-out topic"), "{unfit:?}");
    assert_eq!(there(&program), (0, 3));
    let moved = run(&program, BACK, &["--start", "beginning", "--leave-out", "producer,topic"]);
    assert_eq!(moved.exit, Some(0), "{moved:?}");
    assert!(moved.stderr.contains("moved 3 events"), "{moved:?}");
    assert_eq!(there(&program), (3, 3));
    let again = run(&program, BACK, &[]);
    assert_eq!(again.exit, Some(0), "nothing is left, so nothing need be said: {again:?}");
    assert_eq!(there(&program), (3, 3));
}

#[test]
fn an_adoption_that_is_killed_resumes_where_it_stopped() {
    const ROWS: i64 = 20_000;
    let program = program(ROWS as usize);
    let mut command = program.command(&[&FORTH[..], &["--start", "beginning", "--batch", "10"]].concat());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let running = Running::start(command);
    until(|| (number(&program, "SELECT count(*) FROM postrider_events") >= 30).then_some(()));
    let second = run(&program, FORTH, &["--start", "beginning"]);
    assert_eq!(second.exit, Some(1), "{second:?}");
    assert!(second.stderr.contains("PR-0331"), "{second:?}");
    running.signal("KILL");
    let (exit, _) = running.end();
    assert_eq!(exit, None, "it was killed in the middle");
    let (left, moved) = there(&program);
    assert!(left > 0 && left + moved == ROWS, "{left} are left and {moved} moved");
    // Its lease ended with its session, so nothing waits for it.
    let moved = run(&program, FORTH, &["--start", "beginning", "--json"]);
    assert_eq!(moved.exit, Some(0), "{moved:?}");
    let reported: Value = serde_json::from_str(&moved.stdout).unwrap();
    assert_eq!(reported["moved"], left, "{reported}");
    assert_eq!(there(&program), (0, ROWS));
    assert_eq!(number(&program, "SELECT count(DISTINCT id) FROM postrider_events"), ROWS);
}

#[test]
fn an_interrupted_adoption_finishes_its_batch_and_releases_the_lease() {
    let program = program(20_000);
    let mut command = program.command(&[&FORTH[..], &["--start", "beginning", "--batch", "10"]].concat());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let running = Running::start(command);
    until(|| (number(&program, "SELECT count(*) FROM postrider_events") >= 30).then_some(()));
    running.signal("INT");
    let (exit, said) = running.end();
    assert_eq!(exit, Some(130), "{said}");
    assert!(said.contains("run it again to continue"), "{said}");
    let (left, moved) = there(&program);
    assert_eq!((left + moved, number(&program, "SELECT count(*) FROM postrider_row_leases")), (20_000, 0));
}

#[test]
fn an_impossible_adoption_is_refused_with_a_hint() {
    let program = program(1);
    for (args, exit, says) in [
        (vec!["--from", "eventlog", "--to", "new"], 2, "no outbox has the name or layout \"eventlog\""),
        (vec!["--from", "old", "--to", "old"], 2, "PR-0333"),
        (vec!["--from", "new", "--to", "postrider"], 2, "both have the layout postrider"),
        (vec!["--from", "old", "--to", "new", "--start", "position:3"], 2, "beginning, now or time:RFC3339"),
        (vec!["--from", "old", "--to", "new", "--leave-out", "payload"], 2, "allowed values: expires_at"),
        (vec!["--from", "new", "--to", "old"], 2, "has no subscription"),
        (vec!["--from", "new", "--to", "old", "--subscription", "other"], 2, "there is no subscription"),
    ] {
        let refused = program.run(&[&["adopt"], args.as_slice()].concat());
        assert_eq!(refused.exit, Some(exit), "{refused:?}");
        assert!(refused.stderr.contains(says), "{says:?} is not in {refused:?}");
    }
    let elsewhere =
        program.file("postrider.toml", &CONFIG.replacen("'sqlite:shop.db'", "'sqlite:other.db'", 1));
    let refused = run(&elsewhere, FORTH, &[]);
    assert_eq!(refused.exit, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("one transaction must cover both"), "{refused:?}");
}

#[test]
fn nothing_moves_if_no_subscription_would_receive_it() {
    let program = program(3);
    let without = CONFIG.split("[subscription.mail]").next().unwrap();
    let program = program.file("postrider.toml", without);
    let refused = run(&program, FORTH, &["--start", "beginning"]);
    assert_eq!(refused.exit, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("no subscription of outbox \"new\" would receive the events"),
        "{refused:?}"
    );
    assert_eq!(there(&program), (3, 0));
    assert_eq!(number(&program, "SELECT count(*) FROM postrider_row_leases"), 0);
}
