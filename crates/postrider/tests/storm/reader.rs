//! What a reader of the storm is, and the log of what it delivered.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use postrider::{BoxFuture, Result};
use postrider_testkit::audit::{Sighting, Verdict, audit};
use tokio::sync::Notify;
use uuid::Uuid;

use super::weather::Weather;

/// Delivers committed events into a [`Log`], correctly or with a planted error.
pub(crate) trait Reader: Send + 'static {
    fn name(&self) -> String;

    fn log(&self) -> Arc<Log>;

    /// Reads until the storm is over and everything committed that it will ever deliver is delivered.
    fn run(self: Box<Self>, weather: Arc<Weather>) -> BoxFuture<'static, Result<Findings>>;
}

/// What a reader reports besides its log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Findings {
    /// Times it lost its memory: crashes and restarts.
    pub(crate) crashes: u64,
    /// Times another holder of the lease went on where one had left off.
    pub(crate) takeovers: u64,
    /// Duplicates it may have made at most.
    pub(crate) duplicates_max: u64,
    /// Ranges of positions it took for empty while writers ran.
    pub(crate) declared_empty: u64,
    /// Holes it had in mind at most.
    pub(crate) holes_max: u64,
}

/// Deliveries in their order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    deliveries: Mutex<Deliveries>,
    grown: Notify,
}

#[derive(Debug, Default)]
struct Deliveries {
    all: Vec<Sighting>,
    distinct: HashSet<Uuid>,
}

impl Log {
    pub(crate) fn deliver(&self, sighting: Sighting) {
        let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        deliveries.distinct.insert(sighting.id);
        deliveries.all.push(sighting);
        drop(deliveries);
        self.grown.notify_one();
    }

    /// How many of these were not delivered yet.
    pub(crate) fn missing(&self, wanted: &[Sighting]) -> usize {
        let deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.iter().filter(|event| !deliveries.distinct.contains(&event.id)).count()
    }

    /// Whether any event of a key was delivered.
    pub(crate) fn has(&self, key: &str) -> bool {
        let deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        deliveries.all.iter().any(|event| event.key == key)
    }

    /// Waits until all of these are delivered. For one waiter at a time.
    pub(crate) async fn until_delivered(&self, wanted: &[Sighting]) {
        while self.missing(wanted) > 0 {
            self.grown.notified().await;
        }
    }

    pub(crate) fn audit(&self, committed: &[Sighting]) -> Verdict {
        audit(committed, &self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).all)
    }
}
