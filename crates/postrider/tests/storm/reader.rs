//! The readers of the storm, and the log of their deliveries.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use postrider::{BoxFuture, Result};
use postrider_testkit::verify::{Sighting, Verdict, verify};
use tokio::sync::Notify;
use uuid::Uuid;

use super::storm_state::StormState;

/// Delivers committed events into a [`Log`], correctly or with a design error.
pub(crate) trait Reader: Send + 'static {
    fn name(&self) -> String;

    fn log(&self) -> Arc<Log>;

    /// Reads until the storm is over and it has delivered all events that it can deliver.
    fn run(self: Box<Self>, storm_state: Arc<StormState>) -> BoxFuture<'static, Result<ReaderStats>>;
}

/// What a reader reports besides its log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReaderStats {
    /// The number of crashes and restarts, at which it forgets its holes.
    pub(crate) crashes: u64,
    /// The number of times that another relay took over the lease.
    pub(crate) takeovers: u64,
    /// The maximum number of duplicates that the crashes explain.
    pub(crate) duplicates_max: u64,
    /// The number of ranges that it declared empty while writers ran.
    pub(crate) declared_empty: u64,
    /// The maximum number of holes that it tracked.
    pub(crate) holes_max: u64,
}

/// The deliveries, in order.
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

    /// How many of these events were not delivered yet.
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

    pub(crate) fn verify(&self, committed: &[Sighting]) -> Verdict {
        verify(committed, &self.deliveries.lock().unwrap_or_else(PoisonError::into_inner).all)
    }
}
