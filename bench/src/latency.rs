//! How long from commit to acknowledgement, at a steady rate that does not wait for anybody.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::store::{Start, sqlite::SqliteStore};
use postrider::write::Outbox;
use postrider::{BoxFuture, Event};

use crate::drain::measure;
use crate::sqlite::{Filling, Fixture};
use crate::{Error, Report, Row};

/// How fast and how long.
#[derive(Debug, Clone)]
pub struct Latency {
    /// Transactions of one event per second.
    pub rate: u32,
    /// Seconds per run.
    pub seconds: u32,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Latency {
    fn default() -> Self {
        Self { rate: 200, seconds: 5, repetitions: 3 }
    }
}

/// Notes when each event was acknowledged.
#[derive(Clone, Default)]
struct Clocked(Arc<Mutex<Vec<(u64, Instant)>>>);

impl Sink for Clocked {
    #[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        let now = Instant::now();
        if let Ok(mut acknowledged) = self.0.lock() {
            let number = |message: &Message| std::str::from_utf8(&message.body).ok()?.parse().ok();
            acknowledged.extend(batch.iter().filter_map(|message| Some((number(message)?, now))));
        }
        Box::pin(async move { vec![Outcome::Acknowledged(Receipt::default()); batch.len()] })
    }
}

/// Runs it on fresh SQLite files: with `wake()` after each commit, and by looking alone.
///
/// # Errors
/// What SQLite or the relay says.
pub async fn sqlite(latency: Latency, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Latency { rate, seconds, repetitions } = latency;
    let (mut woken, mut polling) = (Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        woken.push(run_once(rate, seconds, true).await?);
        polling.push(run_once(rate, seconds, false).await?);
    }
    let row = |name: &str, runs: &[Vec<f64>]| Row {
        name: name.to_owned(),
        measures: vec![
            measure("p50 ms", runs.iter().map(|run| quantile(run, 0.50))),
            measure("p99 ms", runs.iter().map(|run| quantile(run, 0.99))),
            measure("max ms", runs.iter().map(|run| quantile(run, 1.0))),
        ],
    };
    Ok(Report {
        title: format!(
            "commit to acknowledgement on SQLite, {rate}/s for {seconds} s, {repetitions} runs in turns"
        ),
        rows: vec![row("wake() after the commit", &woken), row("looking alone (10..500 ms)", &polling)],
        ratios: Vec::new(),
    })
}

/// Milliseconds from each commit to its acknowledgement, sorted.
async fn run_once(rate: u32, seconds: u32, wake: bool) -> Result<Vec<f64>, Error> {
    let fixture = Fixture::fill(&Filling { events: 0, payload_bytes: 0, keys: 0 })?;
    let sink = Clocked::default();
    let subscription = Subscription::new("latency", sink.clone())
        .encoder(postrider::encode::Plain)
        .policy(Policy::default())
        .start(Start::Beginning);
    let store = Arc::new(SqliteStore::open(&fixture.path)?);
    let relay = Arc::new(Relay::builder().outbox(store, [subscription]).spawn().await?);
    let count = u64::from(rate * seconds);
    let connection = fixture.connect()?;
    let waker = relay.clone();
    let commits = tokio::task::spawn_blocking(move || {
        write(&connection, count, Duration::from_secs(1) / rate, || {
            if wake {
                waker.wake()
            }
        })
    });
    let commits = commits.await??;
    while sink.0.lock().map_or(0, |seen| seen.len() as u64) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if let Some(relay) = Arc::into_inner(relay) {
        relay.shutdown().await?;
    }
    let seen = sink.0.lock().map_err(|_| "the sink died")?;
    let waits =
        seen.iter().filter_map(|(number, at)| Some((*at, *commits.get(usize::try_from(*number).ok()?)?)));
    let mut waits: Vec<f64> =
        waits.map(|(at, committed)| at.duration_since(committed).as_secs_f64() * 1e3).collect();
    waits.sort_by(f64::total_cmp);
    Ok(waits)
}

/// One transaction per tick of a clock that does not wait: a slow commit makes the next ones late, not fewer.
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

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}
