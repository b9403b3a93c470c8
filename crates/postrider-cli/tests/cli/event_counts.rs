//! `status --by` and the views of the default layout: known rows are written, and their exact counts are read, on every
//! database and with every layout.

use std::process::Stdio;

use serde_json::Value;

use crate::program::Program;
use crate::shop::{GOOD, number, run_sql};

/// A database, and its SQL expressions.
pub(crate) struct CountCase<'a> {
    pub(crate) program: &'a Program,
    /// The prefix of Postrider's tables.
    pub(crate) own: &'a str,
    pub(crate) run: &'a dyn Fn(&str),
    pub(crate) number: &'a dyn Fn(&str) -> i64,
    /// The time this many seconds ago.
    pub(crate) ago: &'a dyn Fn(i32) -> String,
    /// The same in Postrider's tables.
    pub(crate) own_ago: &'a dyn Fn(i32) -> String,
    /// A date and a time.
    pub(crate) at: &'a dyn Fn(&str) -> String,
}

/// Ages are whole thousands of seconds, and no test takes ten minutes.
const SLACK: f64 = 600.0;

impl CountCase<'_> {
    fn by(&self, what: &str) -> Vec<Value> {
        let ran = self.program.run(&["status", "--by", what, "--json"]);
        assert_eq!((ran.exit, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// The counts of every group, in the printed order.
    fn counts(&self, what: &str) -> Vec<String> {
        let keys = ["subscription", "type", "producer", "total", "pending", "failed", "done", "due"];
        let text = |row: &Value| {
            let cells = keys.map(|key| row[key].as_str().map_or_else(|| row[key].to_string(), str::to_owned));
            cells.join(" ")
        };
        self.by(what).iter().map(text).collect()
    }

    fn holds_one(&self, condition: &str) {
        let sql = format!("SELECT count(*) FROM {}{condition}", self.own);
        assert_eq!((self.number)(&sql), 1, "{sql}");
    }
}

fn is_spread(spread: &Value, slack: f64, [avg, p50, p95, max]: [f64; 4]) {
    for (key, least) in [("avg", avg), ("p50", p50), ("p95", p95), ("max", max)] {
        let reported = spread[key].as_f64().unwrap_or_else(|| panic!("no {key} in {spread}"));
        // A column with whole seconds rounds up.
        assert!(
            (least - slack.min(1.0)..least + slack).contains(&reported),
            "{key} of {spread} is not {least}"
        );
    }
}

/// Eight events; `mail` has some of them done, parked and unread, `audit` all of them done.
fn fill(case: &CountCase<'_>) {
    let CountCase { own, own_ago: ago, at, run, .. } = case;
    let events = [
        ("placed", "'n1'", at("2020-01-01 10:10:00")),
        ("placed", "'n1'", ago(40_000)),
        ("placed", "'n2'", ago(30_000)),
        ("placed", "NULL", at("2020-01-01 10:59:59")),
        ("paid", "'n1'", ago(50_000)),
        ("placed", "'n1'", ago(20_000)),
        ("placed", "'n1'", ago(10_000)),
        ("paid", "'n1'", ago(5_000)),
    ];
    for (kind, producer, time) in events {
        run(&format!(
            "INSERT INTO {own}events (type, payload, producer, time) VALUES ('{kind}', '{{}}', {producer}, {time})"
        ));
    }
    let now = ago(0);
    run(&format!(
        "INSERT INTO {own}subscriptions (name, floor, done, created_at, updated_at)
         VALUES ('mail', 2, '2 4-5 7', {now}, {now}), ('audit', 8, '8', {now}, {now})"
    ));
    run(&format!(
        "INSERT INTO {own}parked (subscription, position, state, attempts, next_attempt_at, parked_at, updated_at)
         VALUES ('mail', 2, 'dead', 3, NULL, {now}, {now}), ('mail', 5, 'retry', 1, {}, {now}, {now}),
                ('mail', 7, 'behind', 0, NULL, {now}, {now})",
        ago(1_000)
    ));
}

/// In a database with the empty tables of the default layout.
pub(crate) fn the_default_layout_is_counted(case: &CountCase<'_>) {
    // Several at once, and again: existing views are replaced.
    for _ in 0..2 {
        let start = || {
            let mut command = case.program.command(&["migrate", "up", "--with", "views"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let all = [start(), start(), start(), start()];
        for made in all.map(|child| child.wait_with_output().unwrap()) {
            assert!(made.status.success(), "{made:?}");
        }
    }
    assert!(case.by("type").is_empty());
    fill(case);
    assert_eq!(
        case.counts("type"),
        [
            "mail placed null 6 3 1 2 2",
            "mail paid null 2 1 1 0 2",
            "audit placed null 6 0 0 6 0",
            "audit paid null 2 0 0 2 0"
        ]
    );
    let by_type = case.by("type");
    is_spread(&by_type[0]["lag_seconds"], SLACK, [25_000.0, 25_000.0, 38_500.0, 40_000.0]);
    is_spread(&by_type[1]["lag_seconds"], SLACK, [27_500.0, 27_500.0, 47_750.0, 50_000.0]);
    assert_eq!((&by_type[0]["attempts_avg"], &by_type[0]["attempts_max"]), (&0.75.into(), &3.into()));
    for unknown in ["lag_seconds", "attempts_avg", "attempts_max", "latency_seconds", "hour"] {
        assert_eq!(by_type[2][unknown], Value::Null, "{unknown}");
    }
    assert_eq!(
        case.counts("producer"),
        [
            "mail placed n1 4 2 1 1 1",
            "mail paid n1 2 1 1 0 2",
            "mail placed n2 1 1 0 0 1",
            "audit placed n1 4 0 0 4 0",
            "audit paid n1 2 0 0 2 0",
            "audit placed n2 1 0 0 1 0",
            "audit placed null 1 0 0 1 0",
            "mail placed null 1 0 0 1 0"
        ]
    );
    let by_hour = case.by("hour");
    assert_eq!(by_hour.iter().map(|row| row["total"].as_u64().unwrap()).sum::<u64>(), 16);
    let last = &by_hour[by_hour.len() - 2..];
    for (row, subscription) in last.iter().zip(["audit", "mail"]) {
        assert_eq!(row["hour"], "2020-01-01T10:00:00.000000Z", "{row}");
        assert_eq!(
            (&row["subscription"], &row["total"], &row["done"]),
            (&subscription.into(), &2.into(), &2.into())
        );
    }
    the_views_agree(case);
}

fn the_views_agree(case: &CountCase<'_>) {
    let view = |name: &str| format!("{}vw_outbox{name}", case.own);
    let count = |sql: String| (case.number)(&format!("SELECT count(*) FROM {sql}"));
    assert_eq!(count(view("")), 16);
    assert_eq!(count(view("") + " WHERE subscription = 'mail' AND is_pending"), 4);
    assert_eq!(count(view("") + " WHERE is_due"), 4);
    assert_eq!(count(view("_due")), 4);
    assert_eq!(count(view("_due") + " WHERE subscription = 'mail' AND position IN (3, 5, 6, 8)"), 4);
    case.holds_one(
        "vw_outbox_due WHERE position = 5 AND parked = 'retry' AND attempts = 1
           AND age_sec BETWEEN 50000 AND 50600 AND since_next_sec BETWEEN 1000 AND 1600",
    );
    case.holds_one(
        "vw_outbox WHERE subscription = 'mail' AND position = 2 AND state = 'failed' AND parked = 'dead'",
    );
    case.holds_one(
        "vw_outbox_metrics WHERE subscription = 'mail' AND type = 'placed' AND total = 6 AND pending = 3 AND done = 2
           AND failed = 1 AND due_now = 2 AND avg_attempts = 0.75 AND max_attempts = 3
           AND avg_created_lag_sec BETWEEN 24999.9 AND 25600 AND p50_created_lag_sec BETWEEN 24999.9 AND 25600
           AND p95_created_lag_sec BETWEEN 38499.9 AND 39100",
    );
    case.holds_one(
        "vw_outbox_metrics WHERE subscription = 'audit' AND type = 'placed' AND total = 6 AND done = 6 AND due_now = 0
           AND avg_created_lag_sec IS NULL AND avg_attempts IS NULL",
    );
    let first_hour =
        format!("SELECT outbox_cnt FROM {} ORDER BY hour_ts LIMIT 1", view("_throughput_hourly"));
    assert_eq!((case.number)(&first_hour), 2);
    case.holds_one(
        "vw_outbox_backlog WHERE subscription = 'mail' AND producer = 'n1' AND type = 'placed' AND pending = 2
           AND failed = 1 AND total = 4",
    );
    case.holds_one("vw_outbox_backlog WHERE subscription = 'mail' AND producer = '(unknown)' AND total = 1");
}

/// In an empty table of `event_outbox`.
pub(crate) fn event_outbox_is_counted(case: &CountCase<'_>) {
    let CountCase { ago, at, run, .. } = case;
    let rows = [
        ("placed", "pending", 0, "NULL".to_owned(), "NULL".to_owned(), "'n1'", ago(10_000)),
        ("placed", "failed", 2, ago(1_000), "NULL".to_owned(), "NULL", ago(30_000)),
        ("placed", "failed", 3, at("9999-12-31 00:00:00"), "NULL".to_owned(), "'n1'", ago(20_000)),
        (
            "placed",
            "sent",
            0,
            "NULL".to_owned(),
            at("2020-01-01 00:00:10"),
            "'n1'",
            at("2020-01-01 00:00:00"),
        ),
        (
            "placed",
            "sent",
            0,
            "NULL".to_owned(),
            at("2020-01-01 00:00:30"),
            "'n1'",
            at("2020-01-01 00:00:00"),
        ),
        ("paid", "sent", 1, "NULL".to_owned(), at("2020-01-01 00:00:40"), "'n1'", at("2020-01-01 00:00:00")),
    ];
    for (number, (kind, status, attempts, next, processed, producer, created)) in (1..).zip(rows) {
        run(&format!(
            "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload, status, attempts,
                                       next_attempt_at, processed_at, producer_node, created_at)
             VALUES ('{number}', 'o', '1', '{kind}', '{{}}', '{status}', {attempts}, {next}, {processed}, {producer}, {created})"
        ));
    }
    assert_eq!(case.counts("type"), ["null placed null 5 1 2 2 2", "null paid null 1 0 0 1 0"]);
    let by_type = case.by("type");
    is_spread(&by_type[0]["lag_seconds"], SLACK, [20_000.0, 20_000.0, 29_000.0, 30_000.0]);
    assert_eq!((&by_type[0]["attempts_avg"], &by_type[0]["attempts_max"]), (&1.0.into(), &3.into()));
    is_spread(&by_type[0]["latency_seconds"], 0.001, [20.0, 20.0, 29.0, 30.0]);
    assert_eq!(
        case.counts("producer"),
        ["null placed n1 4 1 1 2 1", "null placed null 1 0 1 0 1", "null paid n1 1 0 0 1 0"]
    );
    let by_hour = case.by("hour");
    let oldest = by_hour.last().unwrap();
    assert_eq!((&oldest["hour"], &oldest["total"]), (&"2020-01-01T00:00:00.000000Z".into(), &3.into()));
}

/// In an empty table of `outbox_events`, with numeric ids.
pub(crate) fn outbox_events_is_counted(case: &CountCase<'_>) {
    let CountCase { own, ago, own_ago, run, .. } = case;
    let rows = [
        ("PENDING", 0, 10_000),
        ("PUBLISHING", 1, 10_000),
        ("FAILED", 2, 30_000),
        ("FAILED", 10, 20_000),
        ("PUBLISHED", 1, 10_000),
        ("FAILED", 1, 10_000),
    ];
    for (status, attempts, age) in rows {
        run(&format!(
            "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload, status, attempt_count, created_at)
             VALUES ('Order', '1', 'placed', '{{}}', '{status}', {attempts}, {})",
            ago(age)
        ));
    }
    // The last one waits for its next attempt.
    run(&format!(
        "INSERT INTO {own}row_notes (row_id, state, attempts, next_attempt_at, parked_at, updated_at)
         VALUES ('6', 'retry', 1, {}, {now}, {now})",
        own_ago(-100_000),
        now = own_ago(0)
    ));
    assert_eq!(case.counts("type"), ["null placed null 6 2 3 1 2"]);
    assert_eq!(case.counts("producer"), ["null placed null 6 2 3 1 2"]);
    let row = &case.by("type")[0];
    assert_eq!((&row["attempts_avg"], &row["attempts_max"]), (&2.5.into(), &10.into()));
    is_spread(&row["lag_seconds"], SLACK, [16_000.0, 10_000.0, 28_000.0, 30_000.0]);
    assert_eq!(row["latency_seconds"], Value::Null, "the table does not say when a row was delivered");
    assert_eq!(case.by("hour").iter().map(|row| row["total"].as_u64().unwrap()).sum::<u64>(), 6);
}

fn micros_ago(seconds: i32) -> String {
    format!(
        "(CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000 - {})",
        i64::from(seconds) * 1_000_000
    )
}

fn on_file(program: &Program, own: &str, check: impl Fn(&CountCase<'_>)) {
    check(&CountCase {
        program,
        own,
        run: &|sql| run_sql(program, sql),
        number: &|sql| number(program, sql),
        ago: &|seconds| format!("datetime('now', '-{seconds} seconds')"),
        own_ago: &micros_ago,
        at: &|time| format!("(CAST(strftime('%s', '{time}') AS INTEGER) * 1000000)"),
    });
}

#[test]
fn events_of_a_file_are_counted_by_type_hour_and_producer() {
    let program = Program::with_config(GOOD);
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    on_file(&program, "postrider_", the_default_layout_is_counted);
    let shown = program.run(&["status", "--by", "type"]).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(lines[0].starts_with("subscription") && lines[0].contains("lag p50"), "{shown}");
    assert_eq!(
        cells(lines[3])[..],
        ["shop/audit", "placed", "6", "6", "0", "0", "0", "-", "-", "-", "-", "-", "-", "-"]
    );
    assert!(lines[1].contains(" 6h ") && lines[1].contains(" 11h "), "{shown}");
}

#[test]
fn rows_of_a_file_are_counted_by_type_hour_and_producer() {
    let program = Program::with_config(&GOOD.replace("shop.db'", "shop.db'\nlayout = 'outbox_events'"));
    assert_eq!(program.run(&["migrate", "up"]).exit, Some(0));
    on_file(&program, "postrider_", outbox_events_is_counted);
}

#[test]
fn events_without_a_subscription_are_counted() {
    let program = crate::shop::ready();
    let ran = program.run(&["status", "--by", "type", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(rows.len(), 1, "{ran:?}");
    let reported = ["subscription", "type", "total", "pending", "due"].map(|key| rows[0][key].clone());
    assert_eq!(reported, [Value::Null, "shop.opened".into(), 1.into(), 1.into(), 0.into()]);
    let made = program.run(&["migrate", "up", "--with", "aggregate-index"]);
    assert!(made.exit != Some(0) && made.stderr.contains("no optional index"), "{made:?}");
}
