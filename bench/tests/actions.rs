//! What an execution costs, with the benchmark itself: at most 1.1 times the round trips of the same statements by hand.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

use postrider_bench::Report;
use postrider_bench::actions::{self, Actions, BY_HAND, EXECUTE, ROUND_TRIPS};
use postrider_testkit::servers::mysql::Kind;
use postrider_testkit::servers::postgres;
use tokio::sync::Mutex;

const FEW: Actions = Actions { executions: 200, repetitions: 1 };

/// The bytes that a run writes are those of the whole process, so the tests run one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

fn figure(report: &Report, row: &str, measure: &str) -> f64 {
    let row = report.rows.iter().find(|found| found.name == row).unwrap();
    row.measures.iter().find(|found| found.name == measure).unwrap().spread.median
}

fn ratio(report: &Report, name: &str) -> f64 {
    report.ratios.iter().find(|found| found.name == name).unwrap().spread.max
}

/// SELECT, BEGIN, UPDATE, INSERT, COMMIT; and the same for an execution.
fn check(report: &Report) {
    assert!(figure(report, BY_HAND, "round trips/event") >= 5.0, "{report}");
    assert!(figure(report, BY_HAND, "statements/event") >= 5.0, "{report}");
    assert!(ratio(report, ROUND_TRIPS) <= 1.1, "{report}");
    assert!(ratio(report, "statements: execute / by hand") <= 1.1, "{report}");
    assert_eq!(figure(report, EXECUTE, "rows written/event").round(), 2.0, "one UPDATE, one event: {report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_costs_the_round_trips_of_the_same_statements_by_hand() {
    let _alone = ONE_AT_A_TIME.lock().await;
    // Nothing else writes to this server, and no page is written as a whole after a checkpoint.
    let options = postgres::Options::default().setting("full_page_writes=off").setting("autovacuum=off");
    let Some(server) = postgres::own(options) else { return };
    let report = actions::postgres(server.url(), &FEW, |_| {}).await.unwrap();
    check(&report);
    assert!(ratio(&report, "WAL: execute / by hand") <= 1.1, "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_costs_the_round_trips_of_the_same_statements_by_hand_on_mysql_and_mariadb() {
    let _alone = ONE_AT_A_TIME.lock().await;
    for (name, kind) in [("MySQL", Kind::MySql), ("MariaDB", Kind::MariaDb)] {
        let Some(url) = kind.url() else { continue };
        check(&actions::mysql(name, url, &FEW, |_| {}).await.unwrap());
    }
}

#[tokio::test]
async fn an_execution_writes_the_bytes_of_the_same_statements_by_hand_on_sqlite() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let report = actions::sqlite(&FEW, |_| {}).await.unwrap();
    assert!(ratio(&report, "bytes: execute / by hand") <= 1.1, "{report}");
}
