//! On a SQLite file: there are no round trips, so only time, CPU and written bytes are compared.

use postrider::Outbox;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use super::wallet::{Bank, Contender};
use super::{Actions, BY_HAND, EXECUTE};
use crate::drain::rates;
use crate::machine::Meter;
use crate::sqlite::Fixture;
use crate::workload::Workload;
use crate::{Error, Ratio, Report, Row, Usage};

const TABLE: &str =
    "CREATE TABLE wallets (id BLOB PRIMARY KEY, balance INTEGER NOT NULL, version INTEGER NOT NULL)";

/// Runs it on a new SQLite file.
///
/// # Errors
/// An error of SQLite.
pub async fn sqlite(actions: &Actions, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Actions { executions, repetitions } = *actions;
    let fixture = Fixture::fill(&Workload { events: 0, payload_bytes: 0, keys: 0 })?;
    fixture.connect()?.execute_batch(TABLE)?;
    let options = SqliteConnectOptions::new().filename(&fixture.path);
    let pool = SqlitePoolOptions::new().max_connections(1).test_before_acquire(false);
    let bank = Bank::open(pool.connect_with(options).await?, Outbox::new()).await?;
    let mut usages = [Vec::new(), Vec::new()];
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        for (contender, usages) in Contender::ALL.into_iter().zip(&mut usages) {
            let meter = Meter::start();
            bank.deposit(contender, executions).await?;
            usages.push(meter.stop());
        }
    }
    let [by_hand, execute] = &usages;
    let bytes = |runs: &[Usage]| -> Vec<f64> { runs.iter().map(|run| run.written_bytes as f64).collect() };
    Ok(Report {
        title: actions.title("SQLite"),
        rows: vec![Row::of_runs(BY_HAND, executions, by_hand), Row::of_runs(EXECUTE, executions, execute)],
        ratios: vec![
            Ratio::of("bytes: execute / by hand", bytes(execute).into_iter().zip(bytes(by_hand))),
            rates("rate: execute / by hand", (execute, executions), (by_hand, executions)),
        ],
    })
}
