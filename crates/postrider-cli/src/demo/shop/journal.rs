//! The shop's record of its commits, with which deliveries are compared.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_verify::Sighting;
use tokio::sync::Notify;

use crate::demo::meter::Meter;

/// All committed events, recorded after the commit returned, and the number of rollbacks.
#[derive(Debug)]
pub(in crate::demo) struct Journal {
    committed: Mutex<Vec<Sighting>>,
    rolled_back: AtomicU64,
    /// Events that may still be written.
    orders_left: AtomicU64,
    meters: Vec<Arc<Meter>>,
    /// Notified after a commit.
    news: Notify,
}

impl Journal {
    /// Empty journal; the meters count every commit.
    pub(in crate::demo) fn new(events_max: Option<u64>, meters: Vec<Arc<Meter>>) -> Self {
        Self {
            committed: Mutex::default(),
            rolled_back: AtomicU64::new(0),
            orders_left: AtomicU64::new(events_max.unwrap_or(u64::MAX)),
            meters,
            news: Notify::new(),
        }
    }

    /// Reserves the commit of one event; `false` if the planned number is reached.
    pub(super) fn take_order(&self) -> bool {
        let taken = self.orders_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        taken.is_ok()
    }

    pub(super) fn note_commit(&self, event: Sighting) {
        for meter in &self.meters {
            meter.committed(event.id);
        }
        self.lock().push(event);
        self.news.notify_one();
    }

    pub(super) fn note_rollback(&self) {
        self.rolled_back.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::demo) fn committed(&self) -> MutexGuard<'_, Vec<Sighting>> {
        self.lock()
    }

    pub(in crate::demo) fn rolled_back(&self) -> u64 {
        self.rolled_back.load(Ordering::Relaxed)
    }

    /// Waits for a commit.
    pub(in crate::demo) async fn news(&self) {
        self.news.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Sighting>> {
        self.committed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
