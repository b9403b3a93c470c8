//! Counters of one subscription.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider::{Event, Timestamp};
use uuid::Uuid;

/// Deliveries, failed attempts, and undelivered events.
#[derive(Debug, Default)]
pub(super) struct Meter {
    delivered: AtomicU64,
    failed: AtomicU64,
    waiting: Mutex<Waiting>,
    last: Mutex<Option<Arc<Event>>>,
}

/// Committed and not yet delivered. A delivery can be recorded before the writer has recorded its commit.
#[derive(Debug, Default)]
struct Waiting {
    late: BTreeSet<Uuid>,
    early: HashSet<Uuid>,
}

impl Meter {
    pub(super) fn committed(&self, id: Uuid) {
        let mut waiting = self.waiting();
        if !waiting.early.remove(&id) {
            waiting.late.insert(id);
        }
    }

    pub(super) fn delivered(&self, event: &Arc<Event>) {
        let mut waiting = self.waiting();
        if !waiting.late.remove(&event.id) {
            waiting.early.insert(event.id);
        }
        drop(waiting);
        self.delivered.fetch_add(1, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(event.clone());
    }

    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn deliveries(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Attempts that failed and were retried.
    pub(super) fn retries(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn backlog(&self) -> usize {
        self.waiting().late.len()
    }

    /// The age of the oldest undelivered event. Ids increase with time, so the lowest id is the oldest.
    pub(super) fn oldest(&self, now: Timestamp) -> Option<Duration> {
        let (seconds, nanos) = self.waiting().late.first()?.get_timestamp()?.to_unix();
        let written = Duration::new(seconds, nanos);
        let now = Duration::from_micros(u64::try_from(now.as_micros()).unwrap_or_default());
        Some(now.saturating_sub(written))
    }

    /// The event delivered last.
    pub(super) fn last(&self) -> Option<Arc<Event>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_that_overtakes_its_commit_leaves_no_backlog() {
        let (meter, event) = (Meter::default(), Arc::new(Event::new("a", "")));
        meter.delivered(&event);
        meter.committed(event.id);
        assert_eq!((meter.backlog(), meter.deliveries()), (0, 1));
    }

    #[test]
    fn the_oldest_is_the_first_that_is_still_to_come() {
        let (meter, events) = (Meter::default(), [1, 2].map(|_| Arc::new(Event::new("a", ""))));
        events.iter().for_each(|event| meter.committed(event.id));
        let later = events[0].time.after(Duration::from_secs(3));
        assert!(meter.oldest(later) >= Some(Duration::from_secs(3)));
        events.iter().for_each(|event| meter.delivered(event));
        assert_eq!(meter.oldest(later), None);
    }
}
