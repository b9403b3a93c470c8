//! On a MySQL or MariaDB server.

use std::sync::Arc;
use std::time::Instant;

use postrider::Event;
use postrider::relay::{Relay, Subscription};
use postrider::store::Start;
use postrider::write::Outbox;
use postrider_sinks::Null;

use super::Latency;
use super::waits::{Clocked, row};
use crate::mysql::Fixture;
use crate::workload::Workload;
use crate::{Error, Report};

/// Runs it in new databases of a server: with `wake()` after each commit, and with polling only. `server` is its
/// name.
///
/// # Errors
/// An error of the server or the relay.
pub async fn mysql(
    server: &str,
    url: &str,
    latency: Latency,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    let (mut woken, mut polling) = (Vec::new(), Vec::new());
    for run in 1..=latency.repetitions {
        progress(&format!("run {run} of {}", latency.repetitions));
        woken.push(run_once(url, &latency, true).await?);
        polling.push(run_once(url, &latency, false).await?);
    }
    Ok(Report {
        title: format!("commit to acknowledgement on {server}, {}", latency.describe()),
        rows: vec![row("wake() after the commit", &woken), row("looking alone (10..500 ms)", &polling)],
        ratios: Vec::new(),
    })
}

/// Milliseconds from each commit to its acknowledgement, sorted.
async fn run_once(url: &str, latency: &Latency, wakes: bool) -> Result<Vec<f64>, Error> {
    let none = Workload { events: 0, payload_bytes: 0, keys: 0 };
    let fixture = Fixture::fill(url, "latency", &none).await?;
    let sink = Arc::new(Clocked::new(Arc::new(Null::new())));
    let subscription =
        Subscription::new("latency", sink.clone()).encoder(postrider::encode::Plain).start(Start::Beginning);
    let relay = Relay::builder().outbox(fixture.store().await?, [subscription]).spawn().await?;
    let commits = write(&fixture, latency, || {
        if wakes {
            relay.wake();
        }
    })
    .await?;
    let waits = sink.waits(&commits).await?;
    relay.shutdown().await?;
    fixture.close().await?;
    Ok(waits)
}

/// One transaction per tick of a fixed clock: a slow commit delays the next ones and does not reduce their number.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
async fn write(fixture: &Fixture, latency: &Latency, committed: impl Fn()) -> Result<Vec<Instant>, Error> {
    let mut client = fixture.connect().await?;
    let (outbox, started) = (Outbox::new().schema(fixture.schema.clone()), tokio::time::Instant::now());
    let mut commits = Vec::new();
    for number in 0..latency.count() {
        tokio::time::sleep_until(started + latency.interval() * u32::try_from(number)?).await;
        outbox.write(&mut client, Event::new("tick", number.to_string())).await?;
        commits.push(Instant::now());
        committed();
    }
    client.disconnect().await?;
    Ok(commits)
}
