//! The relay's `Store` on a [`MemoryOutbox`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider::ledger::Progress;
use postrider::operate::{
    AuditEntry, AuditQuery, AuditRecord, AuditSearch, EventSelector, ParkedChange, ParkedChanged, ParkedItem,
    ParkedQuery, ReplayBatch, ReplayedBatch, SubscriptionChange, SubscriptionPlan, explain::EventFacts,
};
use postrider::store::{
    Acquired, AsyncClaimer, AsyncStore, Budget, Claimed, Claimer, Epoch, Fetched, LeaseRequest, Overview,
    Purge, Purged, RelayReport, Renewed, Settled, Settlement, Start,
};
use postrider::{Clock, Position, Result, StoredEvent};

use super::{Found, MemoryOutbox, Reader};

/// A database in memory for relays under test. Clones share one database.
#[derive(Clone)]
pub struct MemoryStore {
    database: Arc<Mutex<MemoryOutbox>>,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// An empty database whose leases use this clock.
    pub fn new(clock: impl Clock) -> Self {
        Self { database: Arc::default(), clock: Arc::new(clock) }
    }

    /// The database, to write to it and to inspect it. Release it soon: every operation of the store waits for it.
    pub fn database(&self) -> MutexGuard<'_, MemoryOutbox> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.clock.now().elapsed
    }
}

impl AsyncStore for MemoryStore {
    async fn subscribe(&self, name: String, start: Start) -> Result<bool> {
        let (mut database, now) = (self.database(), self.clock.now().wall);
        let created = database.subscribe(&name, start);
        let done = database.subscription(&name)?.progress.done.clone();
        if created && done.highest() > Position::ZERO {
            let record = AuditRecord::new("a relay", "subscribe", &format!("start {start}"), None);
            let first = (Position::new(1), done.floor());
            let ranges: Vec<String> = std::iter::once(first)
                .chain(done.ranges())
                .map(|(start, end)| format!("{start}-{end}"))
                .collect();
            database.record_audit(&name, &record, 0, ranges.join(" "), now);
        }
        Ok(created)
    }

    async fn acquire(&self, lease: LeaseRequest) -> Result<Acquired> {
        self.database().acquire(&lease, self.now())
    }

    async fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> Result<Renewed> {
        self.database().renew(&lease, epoch, self.now())
    }

    async fn release(&self, name: String, epoch: Epoch, clean: bool) -> Result<()> {
        self.database().release(&name, epoch, clean);
        Ok(())
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        Box::new(MemoryClaimer { store: self.clone(), reader: Reader::new(progress) })
    }

    async fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> Result<Fetched> {
        let Found { events, gone } = self.database().fetch(&positions, bytes_max);
        let stored = |(position, event)| StoredEvent { position, event };
        let mut fetched = Fetched::default();
        (fetched.events, fetched.gone) = (events.into_iter().map(stored).collect(), gone);
        Ok(fetched)
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        self.database().settle(settlement)
    }

    async fn pause(&self, name: String, reason: Option<String>) -> Result<()> {
        self.database().subscription_mut(&name).map(|s| s.paused = reason)
    }

    async fn pause_as_owner(&self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        self.database().pause_as_owner(&name, epoch, &reason)
    }

    async fn halt(&self, name: String, epoch: Epoch, reason: String) -> Result<Settled> {
        self.database().halt(&name, epoch, &reason)
    }

    async fn accept_history(&self, name: String, start: Start) -> Result<()> {
        self.database().accept_history(&name, start)
    }

    async fn purge(&self, purge: Purge) -> Result<Purged> {
        Ok(self.database().purge(&purge, self.clock.now().wall))
    }

    async fn report(&self, report: RelayReport) -> Result<()> {
        let now = self.clock.now().wall;
        self.database()
            .subscription_mut(&report.subscription.clone())
            .map(|subscription| subscription.report(report, now))
    }

    async fn subscription_names(&self) -> Result<Vec<String>> {
        Ok(self.database().subscriptions().map(|(name, _)| name.to_owned()).collect())
    }

    async fn list_parked(&self, query: ParkedQuery) -> Result<Vec<ParkedItem>> {
        self.database().list_parked(&query, self.clock.now().wall)
    }

    async fn count_parked(&self, query: ParkedQuery) -> Result<u64> {
        Ok(self.database().list_parked(&query, self.clock.now().wall)?.len() as u64)
    }

    async fn change_parked(&self, change: ParkedChange) -> Result<ParkedChanged> {
        self.database().change_parked(&change, self.clock.now().wall)
    }

    async fn replay(&self, batch: ReplayBatch) -> Result<ReplayedBatch> {
        self.database().replay(&batch, self.clock.now().wall)
    }

    async fn pause_audited(&self, name: String, reason: Option<String>, audit: AuditRecord) -> Result<()> {
        let (mut database, now) = (self.database(), self.clock.now().wall);
        database.subscription_mut(&name)?.paused = reason;
        database.record_audit(&name, &audit, 0, String::new(), now);
        Ok(())
    }

    async fn note_audit(&self, name: String, audit: AuditRecord) -> Result<()> {
        let now = self.clock.now().wall;
        self.database().record_audit(&name, &audit, 0, String::new(), now);
        Ok(())
    }

    async fn list_audit(&self, query: AuditQuery) -> Result<Vec<AuditEntry>> {
        Ok(self.database().list_audit(&query))
    }

    async fn find_audit(&self, search: AuditSearch) -> Result<Vec<AuditEntry>> {
        Ok(self.database().find_audit(&search))
    }

    async fn plan_subscription(&self, name: String, start: Start) -> Result<SubscriptionPlan> {
        self.database().plan_subscription(&name, start)
    }

    async fn change_subscription(&self, change: SubscriptionChange) -> Result<bool> {
        self.database().change_subscription(&change, self.clock.now())
    }

    async fn event_facts(&self, sought: EventSelector) -> Result<EventFacts> {
        Ok(self.database().event_facts(&sought, self.clock.now()))
    }

    async fn overview(&self, backlog_max: u64) -> Result<Overview> {
        Ok(self.database().overview(backlog_max, self.clock.now()))
    }
}

struct MemoryClaimer {
    store: MemoryStore,
    reader: Reader,
}

impl AsyncClaimer for MemoryClaimer {
    async fn claim(&mut self, budget: Budget) -> Result<Claimed> {
        Ok(self.reader.claim(&self.store.database().log, budget))
    }
}
