//! The operations of a store as plain async functions, and the only place that boxes their futures.
//!
//! A store implements [`AsyncStore`], a claimer [`AsyncClaimer`]. The relay works on `dyn Store`, whose futures are
//! boxed and borrow nothing except the store: the blanket implementations below do both
//! (adr/0054-plain-async-verbs.md).

use super::{
    Acquired, Budget, Claimed, Claimer, Epoch, Fetched, InboxPurge, InboxPurged, LeaseRequest, Loaded,
    Overview, Purge, Purged, RelayReport, Renewed, Settled, Settlement, Start, Store, Wakes, not_operated,
};
use crate::layout::RowTable;
use crate::ledger::Progress;
use crate::operate::{
    AuditEntry, AuditQuery, AuditRecord, AuditSearch, CleanupBatch, EventSelector, InboxItem, InboxRead,
    ParkedChange, ParkedChanged, ParkedItem, ParkedQuery, ReplayBatch, ReplayedBatch, SubscriptionChange,
    SubscriptionPlan, explain::EventFacts,
};
use crate::{BoxFuture, Position, Result};

/// The trait that a database implements to be a [`Store`]. Each operation has the contract of the one with its name
/// there.
///
/// THIS SEAM IS INTERNAL AND UNSTABLE, as [`Store`] is.
pub trait AsyncStore: Send + Sync + 'static {
    /// See [`Store::subscribe`].
    fn subscribe(&self, subscription: String, start: Start) -> impl Future<Output = Result<bool>> + Send;

    /// See [`Store::acquire`].
    fn acquire(&self, lease: LeaseRequest) -> impl Future<Output = Result<Acquired>> + Send;

    /// See [`Store::renew`].
    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> impl Future<Output = Result<Renewed>> + Send;

    /// See [`Store::release`].
    fn release(
        &self,
        subscription: String,
        epoch: Epoch,
        clean: bool,
    ) -> impl Future<Output = Result<()>> + Send;

    /// See [`Store::claimer`].
    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer>;

    /// See [`Store::claimer_of`].
    fn claimer_of(&self, _subscription: &str, loaded: &Loaded) -> Box<dyn Claimer> {
        self.claimer(&loaded.progress)
    }

    /// See [`Store::fetch`].
    fn fetch(
        &self,
        positions: Vec<Position>,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Fetched>> + Send;

    /// See [`Store::peek`].
    fn peek(
        &self,
        positions: Vec<Position>,
        bytes_max: usize,
    ) -> impl Future<Output = Result<Fetched>> + Send {
        self.fetch(positions, bytes_max)
    }

    /// See [`Store::settle`].
    fn settle(&self, settlement: Settlement) -> impl Future<Output = Result<Settled>> + Send;

    /// See [`Store::pause`].
    fn pause(&self, subscription: String, reason: Option<String>) -> impl Future<Output = Result<()>> + Send;

    /// See [`Store::pause_as_owner`].
    fn pause_as_owner(
        &self,
        subscription: String,
        epoch: Epoch,
        reason: String,
    ) -> impl Future<Output = Result<Settled>> + Send;

    /// See [`Store::halt`].
    fn halt(
        &self,
        subscription: String,
        epoch: Epoch,
        reason: String,
    ) -> impl Future<Output = Result<Settled>> + Send;

    /// See [`Store::accept_history`].
    fn accept_history(&self, subscription: String, start: Start) -> impl Future<Output = Result<()>> + Send;

    /// See [`Store::purge`].
    fn purge(&self, purge: Purge) -> impl Future<Output = Result<Purged>> + Send;

    /// See [`Store::purge_inbox`].
    fn purge_inbox(&self, _purge: InboxPurge) -> impl Future<Output = Result<InboxPurged>> + Send {
        std::future::ready(Ok(InboxPurged::default()))
    }

    /// See [`Store::report`].
    fn report(&self, _report: RelayReport) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// See [`Store::row_table`].
    fn row_table(&self) -> Option<&RowTable> {
        None
    }

    /// See [`Store::note_deliveries`].
    fn note_deliveries(&self) {}

    /// See [`Store::overview`].
    fn overview(&self, backlog_max: u64) -> impl Future<Output = Result<Overview>> + Send;

    /// See [`Store::subscription_names`].
    fn subscription_names(&self) -> impl Future<Output = Result<Vec<String>>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::list_parked`].
    fn list_parked(&self, _query: ParkedQuery) -> impl Future<Output = Result<Vec<ParkedItem>>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::count_parked`].
    fn count_parked(&self, _query: ParkedQuery) -> impl Future<Output = Result<u64>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::change_parked`].
    fn change_parked(&self, _change: ParkedChange) -> impl Future<Output = Result<ParkedChanged>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::clean_up`].
    fn clean_up(&self, _batch: CleanupBatch) -> impl Future<Output = Result<Purged>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::replay`].
    fn replay(&self, _batch: ReplayBatch) -> impl Future<Output = Result<ReplayedBatch>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::read_inbox`].
    fn read_inbox(&self, _read: InboxRead) -> impl Future<Output = Result<Vec<InboxItem>>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::pause_audited`].
    fn pause_audited(
        &self,
        _subscription: String,
        _reason: Option<String>,
        _audit: AuditRecord,
    ) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::note_audit`].
    fn note_audit(&self, _name: String, _audit: AuditRecord) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::list_audit`].
    fn list_audit(&self, _query: AuditQuery) -> impl Future<Output = Result<Vec<AuditEntry>>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::find_audit`].
    fn find_audit(&self, _search: AuditSearch) -> impl Future<Output = Result<Vec<AuditEntry>>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::plan_subscription`].
    fn plan_subscription(
        &self,
        _subscription: String,
        _start: Start,
    ) -> impl Future<Output = Result<SubscriptionPlan>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::change_subscription`].
    fn change_subscription(&self, _change: SubscriptionChange) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::event_facts`].
    fn event_facts(&self, _sought: EventSelector) -> impl Future<Output = Result<EventFacts>> + Send {
        std::future::ready(Err(not_operated()))
    }

    /// See [`Store::wakes`].
    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        None
    }

    /// See [`Store::close`].
    fn close(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// A [`Claimer`] whose operation is a plain async function.
pub trait AsyncClaimer: Send {
    /// See [`Claimer::claim`].
    fn claim(&mut self, budget: Budget) -> impl Future<Output = Result<Claimed>> + Send;
}

impl<C: AsyncClaimer> Claimer for C {
    fn claim(&mut self, budget: Budget) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(AsyncClaimer::claim(self, budget))
    }
}

impl<S: AsyncStore> Store for S {
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>> {
        Box::pin(AsyncStore::subscribe(self, subscription.to_owned(), start))
    }

    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(AsyncStore::acquire(self, lease))
    }

    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>> {
        Box::pin(AsyncStore::renew(self, lease, epoch))
    }

    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>> {
        Box::pin(AsyncStore::release(self, subscription.to_owned(), epoch, clean))
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        AsyncStore::claimer(self, progress)
    }

    fn claimer_of(&self, subscription: &str, loaded: &Loaded) -> Box<dyn Claimer> {
        AsyncStore::claimer_of(self, subscription, loaded)
    }

    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(AsyncStore::fetch(self, positions, bytes_max))
    }

    fn peek(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(AsyncStore::peek(self, positions, bytes_max))
    }

    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>> {
        Box::pin(AsyncStore::settle(self, settlement))
    }

    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>> {
        Box::pin(AsyncStore::pause(self, subscription.to_owned(), reason.map(str::to_owned)))
    }

    fn pause_as_owner(&self, name: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>> {
        Box::pin(AsyncStore::pause_as_owner(self, name.to_owned(), epoch, reason.to_owned()))
    }

    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>> {
        Box::pin(AsyncStore::halt(self, subscription.to_owned(), epoch, reason.to_owned()))
    }

    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>> {
        Box::pin(AsyncStore::accept_history(self, subscription.to_owned(), start))
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged>> {
        Box::pin(AsyncStore::purge(self, purge))
    }

    fn purge_inbox(&self, purge: InboxPurge) -> BoxFuture<'_, Result<InboxPurged>> {
        Box::pin(AsyncStore::purge_inbox(self, purge))
    }

    fn report(&self, report: RelayReport) -> BoxFuture<'_, Result<()>> {
        Box::pin(AsyncStore::report(self, report))
    }

    fn row_table(&self) -> Option<&RowTable> {
        AsyncStore::row_table(self)
    }

    fn note_deliveries(&self) {
        AsyncStore::note_deliveries(self);
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(AsyncStore::overview(self, backlog_max))
    }

    fn subscription_names(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(AsyncStore::subscription_names(self))
    }

    fn list_parked(&self, query: ParkedQuery) -> BoxFuture<'_, Result<Vec<ParkedItem>>> {
        Box::pin(AsyncStore::list_parked(self, query))
    }

    fn count_parked(&self, query: ParkedQuery) -> BoxFuture<'_, Result<u64>> {
        Box::pin(AsyncStore::count_parked(self, query))
    }

    fn change_parked(&self, change: ParkedChange) -> BoxFuture<'_, Result<ParkedChanged>> {
        Box::pin(AsyncStore::change_parked(self, change))
    }

    fn clean_up(&self, batch: CleanupBatch) -> BoxFuture<'_, Result<Purged>> {
        Box::pin(AsyncStore::clean_up(self, batch))
    }

    fn replay(&self, batch: ReplayBatch) -> BoxFuture<'_, Result<ReplayedBatch>> {
        Box::pin(AsyncStore::replay(self, batch))
    }

    fn read_inbox(&self, read: InboxRead) -> BoxFuture<'_, Result<Vec<InboxItem>>> {
        Box::pin(AsyncStore::read_inbox(self, read))
    }

    fn pause_audited(
        &self,
        subscription: &str,
        reason: Option<&str>,
        audit: AuditRecord,
    ) -> BoxFuture<'_, Result<()>> {
        let (name, reason) = (subscription.to_owned(), reason.map(str::to_owned));
        Box::pin(AsyncStore::pause_audited(self, name, reason, audit))
    }

    fn note_audit(&self, name: &str, audit: AuditRecord) -> BoxFuture<'_, Result<()>> {
        Box::pin(AsyncStore::note_audit(self, name.to_owned(), audit))
    }

    fn list_audit(&self, query: AuditQuery) -> BoxFuture<'_, Result<Vec<AuditEntry>>> {
        Box::pin(AsyncStore::list_audit(self, query))
    }

    fn find_audit(&self, search: AuditSearch) -> BoxFuture<'_, Result<Vec<AuditEntry>>> {
        Box::pin(AsyncStore::find_audit(self, search))
    }

    fn plan_subscription(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<SubscriptionPlan>> {
        Box::pin(AsyncStore::plan_subscription(self, subscription.to_owned(), start))
    }

    fn change_subscription(&self, change: SubscriptionChange) -> BoxFuture<'_, Result<bool>> {
        Box::pin(AsyncStore::change_subscription(self, change))
    }

    fn event_facts(&self, sought: EventSelector) -> BoxFuture<'_, Result<EventFacts>> {
        Box::pin(AsyncStore::event_facts(self, sought))
    }

    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        AsyncStore::wakes(self)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(AsyncStore::close(self))
    }
}
