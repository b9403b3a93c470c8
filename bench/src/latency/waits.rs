//! When each event was acknowledged, and how long after its commit.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use postrider::BoxFuture;
use postrider::sink::{Capabilities, Message, Outcome, Sink};

use crate::drain::measure;
use crate::{Error, Row};

/// How often to check for the last acknowledgement: a hundred times per second.
const LOOKS_MAX: usize = 6_000;

/// When each event arrived, by its number.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals(Arc<Mutex<Vec<(u64, Instant)>>>);

/// A sink that records when each message was acknowledged. The body of a message is its number.
pub(super) struct Clocked {
    inner: Arc<dyn Sink>,
    acknowledged: Arrivals,
}

impl Arrivals {
    /// The events with these numbers have arrived now.
    #[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    pub(super) fn record(&self, numbers: impl IntoIterator<Item = u64>) {
        let now = Instant::now();
        let mut arrived = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arrived.extend(numbers.into_iter().map(|number| (number, now)));
    }

    /// Waits for the arrival of every commit. Returns the milliseconds from commit to arrival, sorted.
    pub(super) async fn waits(&self, commits: &[Instant]) -> Result<Vec<f64>, Error> {
        let seen = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..LOOKS_MAX {
            if seen().len() >= commits.len() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let seen = seen().clone();
        if seen.len() < commits.len() {
            return Err(format!("{} of {} events arrived", seen.len(), commits.len()).into());
        }
        let pairs =
            seen.iter().filter_map(|(number, at)| Some((at, commits.get(usize::try_from(*number).ok()?)?)));
        let mut waits: Vec<f64> =
            pairs.map(|(at, committed)| at.duration_since(*committed).as_secs_f64() * 1e3).collect();
        waits.sort_by(f64::total_cmp);
        Ok(waits)
    }
}

impl Clocked {
    pub(super) fn new(inner: Arc<dyn Sink>) -> Self {
        Self { inner, acknowledged: Arrivals::default() }
    }

    /// See [`Arrivals::waits`].
    pub(super) async fn waits(&self, commits: &[Instant]) -> Result<Vec<f64>, Error> {
        self.acknowledged.waits(commits).await
    }
}

impl Sink for Clocked {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let outcomes = self.inner.publish(batch).await;
            let number = |message: &Message| std::str::from_utf8(&message.body).ok()?.parse().ok();
            let taken =
                batch.iter().zip(&outcomes).filter(|(_, one)| matches!(one, Outcome::Acknowledged(_)));
            self.acknowledged.record(taken.filter_map(|(message, _)| number(message)));
            outcomes
        })
    }

    fn take_over(&self, lease: Duration) -> BoxFuture<'_, postrider::Result<()>> {
        self.inner.take_over(lease)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

/// The usual figures of runs of sorted waits.
pub(super) fn row(name: &str, runs: &[Vec<f64>]) -> Row {
    Row {
        name: name.to_owned(),
        measures: vec![
            measure("p50 ms", runs.iter().map(|run| quantile(run, 0.50))),
            measure("p99 ms", runs.iter().map(|run| quantile(run, 0.99))),
            measure("max ms", runs.iter().map(|run| quantile(run, 1.0))),
        ],
    }
}

/// The medians of runs of sorted waits.
pub(super) fn medians(runs: &[Vec<f64>]) -> impl Iterator<Item = f64> {
    runs.iter().map(|run| quantile(run, 0.50))
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}
