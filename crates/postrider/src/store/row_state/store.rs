//! The store of a table with a state per row, for every database. See adr/0052-one-row-state-store.md.

use std::fmt;
use std::sync::Arc;

use super::claimer::RowClaimer;
use super::dialect::Owner;
use super::dialect::{Role, RowConnection, RowDialect};
use super::handout::{Purpose, Refetch};
use super::load::StaleMarks;
use super::operator::{AcceptHistory, ChangeSubscription, ReadHandlers, Subscribe, not_positioned};
use super::overview::ReadOverview;
use super::parked::{FindAudit, ListAudit, NoteAudit, PauseAudited, ReadChanges, ReadNames};
use super::plan::SettlePlan;
use super::read::{Read, ReadScope};
use super::refused::{self, Pieces, UnchangedRows};
use super::retention::DeleteDelivered;
use super::takeover::{RemoveMarks, TakeOver};
use super::term::RowTerm;
use super::term_rows::RowId;
use crate::layout::{Ability, RowTable};
use crate::ledger::Progress;
use crate::operate::{
    AuditEntry, AuditQuery, AuditRecord, AuditSearch, CleanupBatch, EventSelector, HandlerEntry, InboxItem,
    InboxRead, ParkedChange, ParkedChanged, ParkedItem, ParkedQuery, ReplayBatch, ReplayedBatch,
    SubscriptionChange, SubscriptionPlan, explain::EventFacts,
};
use crate::store::{
    Acquired, Budget, Claimer, Epoch, Fetched, InboxPurge, InboxPurged, LeaseRequest, Notifications,
    Overview, Purge, Purged, RelayReport, Renewed, Settled, Settlement, Start, Store, Wakes,
};
use crate::{BoxFuture, Code, Inbox, Outbox, Position, Recovery, Result};

/// With at least this many deliveries, a second connection records half of them. With fewer, its round trip costs
/// more than it saves.
const SHARED_FROM: usize = 512;

/// An outbox in a table with a state per row. Clones share its connections.
///
/// Which rows are handed out is known in memory and, where the layout has marks, in the table. If the process dies,
/// the next owner finds its rows by their state and marks, and delivers again what was not settled.
pub struct RowStateStore<D>(pub(in crate::store) Arc<Shared<D>>);

/// What the clones of a store share.
pub(crate) struct Shared<D> {
    pub(in crate::store) dialect: D,
    pub(crate) term: RowTerm,
}

impl<D> Clone for RowStateStore<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D: RowDialect> fmt::Debug for RowStateStore<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RowStateStore").field(self.0.dialect.table()).finish()
    }
}

impl<D> RowStateStore<D> {
    pub(in crate::store) fn of(dialect: D) -> Self {
        Self(Arc::new(Shared { dialect, term: RowTerm::default() }))
    }
}

#[expect(private_bounds, reason = "the databases of this crate are the only dialects")]
impl<D: RowDialect> RowStateStore<D> {
    /// A writer for this outbox, with the table of the store. It holds no connection. Set other options, such as the
    /// [`namespace`](Outbox::namespace), on it.
    pub fn outbox(&self) -> Outbox {
        Outbox::new().table(RowTable::clone(self.0.dialect.table()))
    }

    /// The inbox in the same database as this outbox, for consumers in the same database. It holds no connection. Set the
    /// [`retention`](Inbox::retention) on it.
    pub fn inbox(&self) -> Inbox {
        self.0.dialect.inbox()
    }

    /// Closes the connections after the calls in progress; later calls fail. Call it after the last relay on the store
    /// has shut down. If the store is dropped without it, the connections are closed a little later.
    pub async fn close(&self) {
        self.0.dialect.close().await;
    }
}

impl<D: RowDialect> Shared<D> {
    pub(super) fn table(&self) -> Arc<RowTable> {
        self.dialect.table().clone()
    }

    /// Whether rows must be marked or locked before they are handed out, because other publishers could take them too.
    pub(super) fn marks_or_locks(&self) -> bool {
        self.dialect.marks_rows() || self.dialect.locks_rows()
    }

    /// Releases the locks of rows that are no longer in the term.
    pub(super) async fn release_locks(&self) {
        if self.dialect.locks_rows() {
            self.dialect.release_locks(|| self.term.with_rows(|known| known.open_claims())).await;
        }
    }

    async fn acquire(&self, lease: LeaseRequest) -> Result<Acquired> {
        let _handout = self.term.handout.lock().await;
        let mut connection = self.dialect.connection(Role::Settler).await?;
        let take_over = |stale_marks| TakeOver { lease: lease.clone(), table: self.table(), stale_marks };
        let taken_over = match connection.write(take_over(StaleMarks::Remove)).await {
            Err(error) => {
                let stale_marks = StaleMarks::after(error, &lease.subscription)?;
                connection.write(take_over(stale_marks)).await
            }
            taken_over => taken_over,
        };
        let (acquired, known) = taken_over?;
        if let Some(known) = known {
            self.dialect.clear_locks().await;
            connection.leases().remember_lease(&lease.subscription)?;
            self.term.begin(lease.subscription, known);
        }
        Ok(acquired)
    }

    async fn release(&self, name: &str, epoch: Epoch, clean: bool) -> Result<()> {
        let mut connection = self.dialect.connection(Role::Settler).await?;
        // A lease that was taken on another server cannot be released on this one.
        if !connection.leases().took_lease_here(name)? {
            return Ok(());
        }
        let is_clean = match connection.write(RemoveMarks { name: name.to_owned(), epoch }).await {
            Ok(_) => clean,
            // The table refused to remove marks; the next owner finds the rows marked and takes them over.
            Err(error) if error.code() == Code::RowRefused => false,
            Err(error) => return Err(error),
        };
        connection.release(name.to_owned(), epoch, is_clean).await
    }

    async fn fetch(&self, positions: Vec<Position>, bytes_max: usize, purpose: Purpose) -> Result<Fetched> {
        let _handout = self.term.handout.lock().await;
        let mut connection = self.dialect.connection(Role::Reader).await?;
        connection.leases().check_server()?;
        let (mut refetch, epoch) = self.term.with_rows(|known| (Refetch::of(known, &positions), known.epoch));
        let ids = refetch.ids();
        let budget = Budget::new(ids.len(), bytes_max);
        let read = match ids.is_empty() {
            true => Read::default(),
            false => connection.read(&ids, budget, ReadScope::Any).await?,
        };
        let unmarked = refetch.drop_unread(&read);
        let marked = match purpose == Purpose::HandOut && self.marks_or_locks() {
            true => {
                let subscription = &self.term.subscription();
                Some(connection.mark_or_lock(Owner { subscription, epoch }, unmarked).await?)
            }
            false => None,
        };
        let claims = marked.as_ref().map(|marked| &marked.claims);
        let fetched = self.term.with_rows(|known| refetch.finish(known, read, claims, purpose));
        drop(marked);
        self.release_locks().await;
        Ok(fetched)
    }

    async fn settle(&self, settlement: &Settlement) -> Result<Settled> {
        let _handout = self.term.handout.lock().await;
        let mut connection = self.dialect.connection(Role::Settler).await?;
        connection.leases().check_lease(&settlement.subscription)?;
        let settled = self.record(&mut connection, settlement).await;
        // A renewal of the lease must not wait for the locks to be released.
        drop(connection);
        self.release_locks().await;
        settled
    }

    async fn record(&self, connection: &mut D::Connection<'_>, settlement: &Settlement) -> Result<Settled> {
        let Some(mut plan) = self.plan(settlement) else { return Ok(Settled::Fenced) };
        let half = self.dialect.helper().and_then(|helper| Some((helper, plan.halve(SHARED_FROM)?)));
        let mut pieces = Pieces::of(&settlement.subscription, plan);
        if let Some((mut helper, half)) = half
            && let Some(plan) = self.term.with_rows(|known| pieces.next(known))
        {
            let (plan, half) = (Arc::new(plan), Arc::new(pieces.parallel_piece(half)));
            let (recorded, delivered) = tokio::join!(
                connection.record(settlement, plan.clone()),
                helper.record_deliveries(settlement, half.clone())
            );
            if self.term.notes_deliveries() {
                let changed = |recorded: &Result<Option<usize>>| recorded.as_ref().ok().copied().flatten();
                let deliveries = [
                    plan.deliveries_to_note(changed(&recorded)),
                    half.deliveries_to_note(changed(&delivered)),
                ];
                connection.note_delivered(&deliveries.concat()).await;
            }
            // Each half is a transaction. One that is committed is applied, even if the other half failed.
            let results = self.term.with_rows(|known| {
                let recorded = pieces.apply_result(Arc::unwrap_or_clone(plan), recorded, known);
                [recorded, pieces.apply_result(Arc::unwrap_or_clone(half), delivered, known)]
            });
            for settled in results {
                if settled? == Settled::Fenced {
                    return Ok(Settled::Fenced);
                }
            }
        }
        let is_marked = self.dialect.marks_rows();
        refused::settle(
            &mut Recording { connection, settlement, term: &self.term, is_marked },
            &self.term,
            pieces,
        )
        .await
    }

    /// The changes that a settlement makes to the rows; `None` if its epoch is not the term's.
    pub(super) fn plan(&self, settlement: &Settlement) -> Option<SettlePlan> {
        self.term
            .with_rows(|known| (known.epoch == settlement.epoch).then(|| SettlePlan::of(settlement, known)))
    }
}

/// Records pieces of one settlement.
struct Recording<'a, C> {
    connection: &'a mut C,
    settlement: &'a Settlement,
    term: &'a RowTerm,
    /// Rows are marked in the table before they are handed out.
    is_marked: bool,
}

impl<C: RowConnection> refused::Recorder for Recording<'_, C> {
    async fn record(&mut self, plan: Arc<SettlePlan>) -> Result<Option<usize>> {
        match self.term.notes_deliveries() {
            true => self.connection.record_and_note(self.settlement, plan).await,
            false => self.connection.record(self.settlement, plan).await,
        }
    }

    async fn unchanged(&mut self, ids: Vec<RowId>) -> Result<UnchangedRows> {
        let budget = Budget::new(ids.len(), refused::PAYLOADS_BYTES_MAX);
        Ok(self.connection.read(&ids, budget, ReadScope::Any).await?.unchanged(self.is_marked))
    }
}

impl<D: RowDialect> Store for RowStateStore<D> {
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>> {
        let verb = Subscribe { name: subscription.to_owned(), table: self.0.table(), start };
        Box::pin(async move { self.0.dialect.connection(Role::Settler).await?.write(verb).await })
    }

    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>> {
        Box::pin(self.0.acquire(lease))
    }

    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>> {
        Box::pin(async move {
            let mut connection = self.0.dialect.connection(Role::Settler).await?;
            connection.leases().check_lease(&lease.subscription)?;
            let subscription = lease.subscription.clone();
            let renewed = connection.renew(lease, epoch).await?;
            let Renewed::Held { paused, .. } = renewed else { return Ok(renewed) };
            let changes = connection.read_snapshot(ReadChanges { subscription }).await?;
            let parked_changed =
                self.0.term.with_rows(|known| known.epoch == epoch && known.changes != changes);
            Ok(Renewed::Held { paused, parked_changed })
        })
    }

    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>> {
        let name = subscription.to_owned();
        Box::pin(async move {
            let _handout = self.0.term.handout.lock().await;
            self.0.dialect.clear_locks().await;
            match self.0.release(&name, epoch, clean).await {
                Err(error) if D::RELEASES_AGAIN && error.code().recovery() == Recovery::Reload => {
                    self.0.release(&name, epoch, clean).await
                }
                answer => answer,
            }
        })
    }

    fn claimer(&self, _: &Progress) -> Box<dyn Claimer> {
        Box::new(RowClaimer::new(self.0.clone()))
    }

    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(self.0.fetch(positions, bytes_max, Purpose::HandOut))
    }

    fn peek(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        Box::pin(self.0.fetch(positions, bytes_max, Purpose::Peek))
    }

    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>> {
        Box::pin(async move { self.0.settle(&settlement).await })
    }

    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>> {
        let (name, reason) = (subscription.to_owned(), reason.map(str::to_owned));
        Box::pin(async move { self.0.dialect.connection(Role::Settler).await?.pause(name, reason).await })
    }

    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(async move {
            self.0.dialect.connection(Role::Settler).await?.pause_as_owner(name, epoch, reason).await
        })
    }

    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>> {
        let (name, reason) = (subscription.to_owned(), reason.to_owned());
        Box::pin(
            async move { self.0.dialect.connection(Role::Settler).await?.halt(name, epoch, reason).await },
        )
    }

    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>> {
        let verb = AcceptHistory { name: subscription.to_owned(), table: self.0.table(), start };
        Box::pin(async move { self.0.dialect.connection(Role::Settler).await?.write(verb).await })
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged>> {
        Box::pin(async move {
            let mut connection = self.0.dialect.connection(Role::Cleaner).await?;
            connection.write(DeleteDelivered { purge, table: self.0.table() }).await
        })
    }

    fn purge_inbox(&self, purge: InboxPurge) -> BoxFuture<'_, Result<InboxPurged>> {
        Box::pin(async move { self.0.dialect.connection(Role::Cleaner).await?.purge_inbox(purge).await })
    }

    /// Not over the connection that renews leases: a slow report must not delay a renewal.
    fn report(&self, report: RelayReport) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.0.dialect.connection(Role::Cleaner).await?.report(report).await })
    }

    fn row_table(&self) -> Option<&RowTable> {
        Some(self.0.dialect.table())
    }

    fn notifications(&self) -> Option<Arc<dyn Notifications>> {
        let has = self.0.dialect.table().layout().has(Ability::Notifications);
        has.then(|| Arc::new(self.clone()) as Arc<dyn Notifications>)
    }

    fn note_deliveries(&self) {
        self.0.term.note_deliveries(self.0.dialect.table());
    }

    fn subscription_names(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move { self.0.dialect.connection(Role::Reader).await?.read_snapshot(ReadNames).await })
    }

    fn list_parked(&self, query: ParkedQuery) -> BoxFuture<'_, Result<Vec<ParkedItem>>> {
        Box::pin(async move { self.0.list_parked(&query).await })
    }

    fn count_parked(&self, query: ParkedQuery) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { Ok(self.0.list_parked(&query).await?.len() as u64) })
    }

    fn change_parked(&self, change: ParkedChange) -> BoxFuture<'_, Result<ParkedChanged>> {
        Box::pin(async move { self.0.change_parked(change).await })
    }

    fn clean_up(&self, batch: CleanupBatch) -> BoxFuture<'_, Result<Purged>> {
        Box::pin(self.0.clean_up(batch))
    }

    fn read_inbox(&self, read: InboxRead) -> BoxFuture<'_, Result<Vec<InboxItem>>> {
        Box::pin(async move { self.0.dialect.connection(Role::Reader).await?.read_inbox(read).await })
    }

    fn pause_audited(
        &self,
        subscription: &str,
        reason: Option<&str>,
        audit: AuditRecord,
    ) -> BoxFuture<'_, Result<()>> {
        let (subscription, reason) = (subscription.to_owned(), reason.map(str::to_owned));
        let verb = PauseAudited { subscription, reason, audit };
        Box::pin(async move { self.0.dialect.connection(Role::Settler).await?.write(verb).await })
    }

    fn note_audit(&self, name: &str, audit: AuditRecord) -> BoxFuture<'_, Result<()>> {
        let verb = NoteAudit { name: name.to_owned(), audit };
        Box::pin(async move { self.0.dialect.connection(Role::Settler).await?.write(verb).await })
    }

    fn list_audit(&self, query: AuditQuery) -> BoxFuture<'_, Result<Vec<AuditEntry>>> {
        Box::pin(async move {
            self.0.dialect.connection(Role::Reader).await?.read_snapshot(ListAudit { query }).await
        })
    }

    fn find_audit(&self, search: AuditSearch) -> BoxFuture<'_, Result<Vec<AuditEntry>>> {
        Box::pin(async move {
            self.0.dialect.connection(Role::Reader).await?.read_snapshot(FindAudit { search }).await
        })
    }

    fn handlers(&self) -> BoxFuture<'_, Result<Vec<HandlerEntry>>> {
        if !self.0.dialect.table().layout().has(Ability::Notifications) {
            let hint = "only layout eventlog registers handlers in the database";
            return Box::pin(std::future::ready(Err(not_positioned(self.0.dialect.table(), hint))));
        }
        Box::pin(
            async move { self.0.dialect.connection(Role::Reader).await?.read_snapshot(ReadHandlers).await },
        )
    }

    fn replay(&self, _: ReplayBatch) -> BoxFuture<'_, Result<ReplayedBatch>> {
        let hint = "set the state of the rows in your table back to what it was before delivery";
        Box::pin(std::future::ready(Err(not_positioned(self.0.dialect.table(), hint))))
    }

    fn plan_subscription(&self, _: &str, _: Start) -> BoxFuture<'_, Result<SubscriptionPlan>> {
        let refused =
            not_positioned(self.0.dialect.table(), "change the state of rows in your table instead");
        Box::pin(std::future::ready(Err(refused)))
    }

    fn change_subscription(&self, change: SubscriptionChange) -> BoxFuture<'_, Result<bool>> {
        let verb = ChangeSubscription { change, table: self.0.table() };
        Box::pin(async move { self.0.dialect.connection(Role::Settler).await?.write(verb).await })
    }

    fn event_facts(&self, sought: EventSelector) -> BoxFuture<'_, Result<EventFacts>> {
        Box::pin(self.0.event_facts(sought))
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(async move {
            self.0.dialect.connection(Role::Reader).await?.read_snapshot(ReadOverview { backlog_max }).await
        })
    }

    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        self.0.dialect.wakes()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.0.dialect.close()
    }
}
