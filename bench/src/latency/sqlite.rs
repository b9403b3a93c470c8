//! On a SQLite file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider::Event;
use postrider::relay::{Relay, Subscription};
use postrider::store::{Start, sqlite::SqliteStore};
use postrider::write::Outbox;
use postrider_sinks::Null;

use super::Latency;
use super::waits::{Clocked, row};
use crate::sqlite::Fixture;
use crate::workload::Workload;
use crate::{Error, Report};

/// Runs it on new SQLite files: with `wake()` after each commit, and with polling only.
///
/// # Errors
/// An error of SQLite or the relay.
pub async fn sqlite(latency: Latency, progress: impl Fn(&str)) -> Result<Report, Error> {
    let (mut woken, mut polling) = (Vec::new(), Vec::new());
    for run in 1..=latency.repetitions {
        progress(&format!("run {run} of {}", latency.repetitions));
        woken.push(run_once(&latency, true).await?);
        polling.push(run_once(&latency, false).await?);
    }
    Ok(Report {
        title: format!("commit to acknowledgement on SQLite, {}", latency.describe()),
        rows: vec![row("wake() after the commit", &woken), row("looking alone (10..500 ms)", &polling)],
        ratios: Vec::new(),
    })
}

/// Milliseconds from each commit to its acknowledgement, sorted.
async fn run_once(latency: &Latency, wake: bool) -> Result<Vec<f64>, Error> {
    let fixture = Fixture::fill(&Workload { events: 0, payload_bytes: 0, keys: 0 })?;
    let sink = Arc::new(Clocked::new(Arc::new(Null::new())));
    let subscription =
        Subscription::new("latency", sink.clone()).encoder(postrider::encode::Plain).start(Start::Beginning);
    let store = Arc::new(SqliteStore::open(&fixture.path)?);
    let relay = Arc::new(Relay::builder().outbox(store, [subscription]).spawn().await?);
    let (connection, waker) = (fixture.connect()?, relay.clone());
    let (count, interval) = (latency.count(), latency.interval());
    let commits = tokio::task::spawn_blocking(move || {
        write(&connection, count, interval, || {
            if wake {
                waker.wake()
            }
        })
    });
    let waits = sink.waits(&commits.await??).await?;
    if let Some(relay) = Arc::into_inner(relay) {
        relay.shutdown().await?;
    }
    Ok(waits)
}

/// One transaction per tick of a fixed clock: a slow commit delays the next ones and does not reduce their number.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn write(
    connection: &rusqlite::Connection,
    count: u64,
    interval: Duration,
    committed: impl Fn(),
) -> Result<Vec<Instant>, Error> {
    let (outbox, started) = (Outbox::new(), Instant::now());
    let mut commits = Vec::new();
    for number in 0..count {
        let due = started + interval * u32::try_from(number)?;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        outbox.write(connection, Event::new("tick", number.to_string()))?;
        commits.push(Instant::now());
        committed();
    }
    Ok(commits)
}
