//! The operations of a store as plain async functions, and the only place that boxes their futures.
//!
//! A store implements [`AsyncStore`], a claimer [`AsyncClaimer`]. The relay works on `dyn Store`, whose futures are
//! boxed and borrow nothing except the store: the blanket implementations below do both
//! (adr/0054-plain-async-verbs.md).

use super::{
    Acquired, Budget, Claimed, Claimer, Epoch, Fetched, InboxPurge, InboxPurged, LeaseRequest, Loaded,
    Overview, Purge, Purged, RelayReport, Renewed, Settled, Settlement, Start, Store, Wakes,
};
use crate::layout::RowTable;
use crate::ledger::Progress;
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

    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        AsyncStore::wakes(self)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(AsyncStore::close(self))
    }
}
