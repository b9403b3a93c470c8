//! The relay's `Store` over a [`MemoryDatabase`].

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider::ledger::Progress;
use postrider::store::{
    Acquired, Budget, Claimed, Claimer, Epoch, Fetched, LeaseRequest, Overview, Purge, Purged, RelayReport,
    Renewed, Settled, Settlement, Start, Store,
};
use postrider::{BoxFuture, Clock, Position, Result, StoredEvent};

use super::{Found, MemoryDatabase, Reader};

/// A database in memory for relays under test. Clones share one database.
#[derive(Clone)]
pub struct MemoryStore {
    database: Arc<Mutex<MemoryDatabase>>,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// An empty database whose leases run on this clock.
    pub fn new(clock: impl Clock) -> Self {
        Self { database: Arc::default(), clock: Arc::new(clock) }
    }

    /// The database, to write to and to look at. Hold it briefly: every verb of the store waits for it.
    pub fn database(&self) -> MutexGuard<'_, MemoryDatabase> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.clock.now().elapsed
    }

    fn done<T: Send + 'static>(&self, result: Result<T>) -> BoxFuture<'_, Result<T>> {
        Box::pin(ready(result))
    }
}

impl Store for MemoryStore {
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>> {
        let created = self.database().subscribe(subscription, start);
        self.done(Ok(created))
    }

    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>> {
        let acquired = self.database().acquire(&lease, self.now());
        self.done(acquired)
    }

    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>> {
        let renewed = self.database().renew(&lease, epoch, self.now());
        self.done(renewed)
    }

    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>> {
        self.database().release(subscription, epoch, clean);
        self.done(Ok(()))
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        Box::new(MemoryClaimer { store: self.clone(), reader: Reader::new(progress) })
    }

    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        let Found { events, gone } = self.database().fetch(&positions, bytes_max);
        let stored = |(position, event)| StoredEvent { position, event };
        let events = events.into_iter().map(stored).collect();
        self.done(Ok(Fetched { events, gone, ..Fetched::default() }))
    }

    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>> {
        let settled = self.database().settle(settlement);
        self.done(settled)
    }

    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>> {
        let reason = reason.map(str::to_owned);
        let paused = self.database().subscription_mut(subscription).map(|s| s.paused = reason);
        self.done(paused)
    }

    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>> {
        let paused = self.database().pause_as_owner(subscription, epoch, reason);
        self.done(paused)
    }

    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>> {
        let halted = self.database().halt(subscription, epoch, reason);
        self.done(halted)
    }

    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>> {
        let accepted = self.database().accept_history(subscription, start);
        self.done(accepted)
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged>> {
        let purged = self.database().purge(&purge, self.clock.now().wall);
        self.done(Ok(purged))
    }

    fn report(&self, report: RelayReport) -> BoxFuture<'_, Result<()>> {
        let now = self.clock.now().wall;
        let reported = self
            .database()
            .subscription_mut(&report.subscription.clone())
            .map(|subscription| subscription.report(report, now));
        self.done(reported)
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        let overview = self.database().overview(backlog_max, self.clock.now());
        self.done(Ok(overview))
    }
}

struct MemoryClaimer {
    store: MemoryStore,
    reader: Reader,
}

impl Claimer for MemoryClaimer {
    fn claim(&mut self, budget: Budget) -> BoxFuture<'_, Result<Claimed>> {
        let claimed = self.reader.claim(&self.store.database().log, budget);
        Box::pin(ready(Ok(claimed)))
    }
}
