//! What each database implements: the operations on a table with a state per row, in its own SQL.
//!
//! [`RowStateStore`](super::store::RowStateStore) makes the decisions and a dialect carries them out. There are three
//! levels, because some operations need a connection that outlives a transaction, and some need one transaction for
//! several steps:
//!
//! - [`RowDialect`]: the connections of one outbox.
//! - [`RowConnection`]: operations that are one transaction each, and leases, which belong to a connection.
//! - [`RowTx`]: steps within a transaction. A [`TxVerb`] combines them, and is written once for all databases.
//!
//! SQLite blocks, so its transactions run on the thread that owns the connection. Its steps never wait, so one poll
//! completes a [`TxVerb`]. See adr/0052-one-row-state-store.md.

use std::collections::HashSet;
use std::sync::Arc;

use super::load::{LockedSubscription, NotedRow, ScheduledRow};
use super::notifications::NotificationTx;
use super::plan::SettlePlan;
use super::read::{Read, ReadScope};
use super::refused::{MarkedRows, Refused, mark_in_pieces};
use super::term_rows::{Claims, RowClaim, RowId};
use crate::adopt::AdoptionBatch;
use crate::layout::RowTable;
use crate::operate::explain::OpenWriter;
use crate::operate::{InboxItem, InboxRead};
use crate::store::audit_tx::AuditTx;
use crate::store::lease_tx::LeaseTx;
use crate::store::{
    Budget, Epoch, InboxPurge, InboxPurged, LeaseOverview, LeaseRequest, Purge, RelayOverview, RelayReport,
    Renewed, Settled, Settlement, Wakes,
};
use crate::{BoxFuture, Code, Error, Inbox, Result, Timestamp};

/// Which connection an operation uses. Reading ahead, settling and cleaning must not wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Leases, settlements and the commands of an operator.
    Settler,
    /// Finds and marks due rows.
    Claimer,
    /// Reads rows by id, and the overview.
    Reader,
    /// Deletes old rows and records what relays report.
    Cleaner,
    /// Searches for missed events, which may take minutes.
    Searcher,
}

/// The connections to one outbox with a state per row.
pub(crate) trait RowDialect: Send + Sync + 'static {
    /// Exclusive use of one connection, until it is dropped.
    type Connection<'a>: RowConnection
    where
        Self: 'a;

    /// Whether a release that failed because its connection broke is tried once more over another. Without that,
    /// every relay would wait until the lease expires.
    const RELEASES_AGAIN: bool = false;

    /// The table.
    fn table(&self) -> &Arc<RowTable>;

    /// The same outbox for one handler of layout `eventlog`, with connections of its own.
    fn with_table(&self, _table: RowTable) -> Result<Self>
    where
        Self: Sized,
    {
        Err(no_notifications())
    }

    /// Whether rows are marked in the table before they are handed out.
    fn marks_rows(&self) -> bool;

    /// Whether rows are locked while they are handed out.
    fn locks_rows(&self) -> bool {
        false
    }

    /// Waits for a connection.
    fn connection(&self, role: Role) -> impl Future<Output = Result<Self::Connection<'_>>> + Send;

    /// A second connection that can record deliveries in parallel with a settlement, if one is ready.
    fn helper(&self) -> Option<Self::Connection<'_>> {
        None
    }

    /// Prepares the second connection, if this many rows make it worthwhile. They are about to be handed out, and
    /// settled later.
    fn prepare_helper(&self, _rows: usize) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Releases the locks of settled rows; `in_use` are the claims that still have rows.
    fn release_locks(
        &self,
        _in_use: impl FnOnce() -> HashSet<i64> + Send,
    ) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Releases all locks.
    fn clear_locks(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// The inbox in the same database as the table.
    fn inbox(&self) -> Inbox {
        Inbox::new()
    }

    /// See [`Store::wakes`](crate::store::Store::wakes).
    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        None
    }

    /// See [`Store::close`](crate::store::Store::close).
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What a connection remembers about the leases that were taken over it. The defaults are those of a file, which no
/// other server can replace.
pub(crate) trait LeaseMemory {
    /// Refuses a connection that leads to another server than the one on which the lease was taken.
    fn check_server(&mut self) -> Result<()> {
        Ok(())
    }

    /// Remembers that a lease was taken over this connection.
    fn remember_lease(&mut self, _subscription: &str) -> Result<()> {
        Ok(())
    }

    /// Refuses a lease that was taken over a connection that is lost.
    fn check_lease(&mut self, _subscription: &str) -> Result<()> {
        Ok(())
    }

    /// Whether the lease was taken on the server behind this connection. A lease can only be released there.
    fn took_lease_here(&mut self, _subscription: &str) -> Result<bool> {
        Ok(true)
    }
}

/// The owner of a lease: its subscription, in one epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) subscription: &'a str,
    pub(crate) epoch: Epoch,
}

/// A row that was read, and its count of attempts at that time.
pub(crate) type SeenRow = (RowId, i64);

/// One connection, for one caller at a time.
pub(crate) trait RowConnection: Send {
    /// Runs a verb in a transaction: all of it is committed, or none.
    fn write<V: TxVerb>(&mut self, verb: V) -> impl Future<Output = Result<V::Output>> + Send;

    /// Runs a verb in a transaction that sees one snapshot and writes nothing.
    fn read_snapshot<V: TxVerb>(&mut self, verb: V) -> impl Future<Output = Result<V::Output>> + Send;

    /// What the connection remembers about leases.
    fn leases(&mut self) -> &mut dyn LeaseMemory;

    /// See [`Store::renew`](crate::store::Store::renew).
    fn renew(&mut self, lease: LeaseRequest, epoch: Epoch) -> impl Future<Output = Result<Renewed>> + Send;

    /// See [`Store::release`](crate::store::Store::release).
    fn release(&mut self, name: String, epoch: Epoch, clean: bool)
    -> impl Future<Output = Result<()>> + Send;

    /// See [`Store::pause`](crate::store::Store::pause).
    fn pause(&mut self, name: String, reason: Option<String>) -> impl Future<Output = Result<()>> + Send;

    /// See [`Store::pause_as_owner`](crate::store::Store::pause_as_owner).
    fn pause_as_owner(
        &mut self,
        name: String,
        epoch: Epoch,
        reason: String,
    ) -> impl Future<Output = Result<Settled>> + Send;

    /// See [`Store::halt`](crate::store::Store::halt).
    fn halt(
        &mut self,
        name: String,
        epoch: Epoch,
        reason: String,
    ) -> impl Future<Output = Result<Settled>> + Send;

    /// See [`Store::report`](crate::store::Store::report).
    fn report(&mut self, report: RelayReport) -> impl Future<Output = Result<()>> + Send;

    /// Ids of due rows in their order, at most `rows_max`.
    fn list(&mut self, rows_max: usize) -> impl Future<Output = Result<Vec<RowId>>> + Send;

    /// Rows by id, in the requested order, until the budget is used up; at least one.
    fn read(
        &mut self,
        ids: &[RowId],
        budget: Budget,
        which: ReadScope,
    ) -> impl Future<Output = Result<Read>> + Send;

    /// Marks rows as being published, if their count of attempts is still the one given: otherwise another publisher
    /// has changed them. Returns those that were marked. After a crash the next owner finds the marks.
    ///
    /// # Errors
    /// [`RowRefused`](crate::Code::RowRefused) if the table refuses to mark one of them; then none is marked.
    fn mark(&mut self, owner: Owner<'_>, rows: &[SeenRow]) -> impl Future<Output = Result<Claims>> + Send;

    /// Marks or locks rows, so that no other publisher takes them.
    fn mark_or_lock(
        &mut self,
        owner: Owner<'_>,
        rows: Vec<SeenRow>,
    ) -> impl Future<Output = Result<MarkedRows>> + Send
    where
        Self: Sized,
    {
        mark_in_pieces(self, owner, rows)
    }

    /// Records a plan in one transaction. Returns how many rows were changed; `None` if the lease was lost, and then
    /// none was.
    fn record(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
    ) -> impl Future<Output = Result<Option<usize>>> + Send;

    /// The same, and notes the delivered rows for retention.
    fn record_and_note(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
    ) -> impl Future<Output = Result<Option<usize>>> + Send {
        async move {
            let changed = self.record(settlement, plan.clone()).await?;
            self.note_delivered(plan.deliveries_to_note(changed)).await;
            Ok(changed)
        }
    }

    /// Records deliveries only, in parallel with a settlement. Returns as [`record`](Self::record) does.
    fn record_deliveries(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
    ) -> impl Future<Output = Result<Option<usize>>> + Send {
        self.record(settlement, plan)
    }

    /// Notes delivered rows for retention. A note that fails only keeps its row from being deleted.
    fn note_delivered(&mut self, ids: &[String]) -> impl Future<Output = ()> + Send;

    /// Deletes expired rows of the inbox, in a transaction for each table that serves as one.
    fn purge_inbox(&mut self, purge: InboxPurge) -> impl Future<Output = Result<InboxPurged>> + Send;

    /// See [`Store::read_inbox`](crate::store::Store::read_inbox).
    fn read_inbox(&mut self, read: InboxRead) -> impl Future<Output = Result<Vec<InboxItem>>> + Send;
}

/// Several steps in one transaction, the same on every database.
pub(crate) trait TxVerb: Send + 'static {
    /// Its result.
    type Output: Send + 'static;

    /// Runs the steps. An error rolls the transaction back.
    fn run<T: RowTx>(self, tx: &mut T) -> impl Future<Output = Result<Self::Output>> + Send;
}

/// One subscription, as its row stores it.
#[derive(Debug)]
pub(crate) struct StoredSubscription {
    /// Its name.
    pub(crate) name: String,
    /// Increases with every owner.
    pub(crate) epoch: Epoch,
    /// Whether the last owner released the lease cleanly.
    pub(crate) clean: bool,
    /// Why it is paused, if it is.
    pub(crate) paused: Option<String>,
    /// Why it is halted, if it is.
    pub(crate) halted: Option<String>,
}

/// Rows counted by state, and the creation times of the first and the last undelivered row.
#[derive(Debug)]
pub(crate) struct RowCounts {
    /// Pending, being published, failed and due again, given up, delivered; and how many of those given up are
    /// unrouted.
    pub(crate) by_state: [u64; 6],
    /// The first and the last.
    pub(crate) undelivered: [Option<Timestamp>; 2],
}

/// The backlog: rows that are not done and have no note.
#[derive(Debug, Default)]
pub(crate) struct BacklogRows {
    /// How many, counted up to a limit.
    pub(crate) events: u64,
    /// What the first is ordered by.
    pub(crate) first: Option<Timestamp>,
    /// When the oldest was created.
    pub(crate) oldest: Option<Timestamp>,
}

/// One transaction.
pub(crate) trait RowTx: LeaseTx<Row = LockedSubscription> + NotificationTx + AuditTx {
    /// All subscriptions: one, or none.
    fn subscriptions(&mut self) -> impl Future<Output = Result<Vec<StoredSubscription>>> + Send;

    /// Raises the epoch and ends a halt: the database is accepted as it is. Returns whether there is such a
    /// subscription.
    fn accept_history(&mut self, name: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Deletes the lease, whichever relay holds it.
    fn delete_lease(&mut self, name: &str) -> impl Future<Output = Result<()>> + Send;

    /// Whether a row is due.
    fn has_due_row(&mut self) -> impl Future<Output = Result<bool>> + Send;

    /// Removes the marks from rows that are not settled, if the epoch is the subscription's. Returns how many rows.
    ///
    /// # Errors
    /// [`RowRefused`](crate::Code::RowRefused) if the table refuses that.
    fn remove_marks(&mut self, name: &str, epoch: Epoch) -> impl Future<Output = Result<u64>> + Send;

    /// Rows that carry a mark of an earlier owner.
    fn marked_rows(&mut self) -> impl Future<Output = Result<Vec<(String, RowClaim)>>> + Send;

    /// How many rows other publishers have marked: in the last ten minutes, and in total. `None` if the layout has no
    /// marks.
    fn foreign_claims(&mut self) -> impl Future<Output = Result<Option<(i64, i64)>>> + Send;

    /// All notes of a subscription, each with the state of its row in the table, but not with what the table refused.
    fn notes(&mut self, subscription: &str) -> impl Future<Output = Result<Vec<NotedRow>>> + Send;

    /// The rows whose outcome the table refused to record.
    fn refused_rows(&mut self) -> impl Future<Output = Result<Vec<(String, Refused)>>> + Send;

    /// Rows without a note that the table schedules for later.
    fn scheduled_rows(
        &mut self,
        subscription: &str,
    ) -> impl Future<Output = Result<Vec<ScheduledRow>>> + Send;

    /// Deletes notes.
    fn delete_notes(&mut self, ids: &[String]) -> impl Future<Output = Result<()>> + Send;

    /// What the newest row is ordered by.
    fn newest(&mut self) -> impl Future<Output = Result<Option<Timestamp>>> + Send;

    /// The backlog of a subscription, counted up to `rows_max`.
    fn backlog(
        &mut self,
        subscription: &str,
        rows_max: u64,
    ) -> impl Future<Output = Result<BacklogRows>> + Send;

    /// The lease, expired or not.
    fn lease(&mut self, name: &str) -> impl Future<Output = Result<Option<LeaseOverview>>> + Send;

    /// When the oldest open transaction of the database began, except for this one; see
    /// [`Overview::oldest_transaction`](crate::store::Overview::oldest_transaction).
    fn oldest_transaction(&mut self) -> impl Future<Output = Result<Option<Option<Timestamp>>>> + Send {
        std::future::ready(Ok(None))
    }

    /// The reports of relays about themselves.
    fn relays(&mut self, name: &str) -> impl Future<Output = Result<Vec<RelayOverview>>> + Send;

    /// All rows by state; with notifications, those of the subscription and the events that wait for it.
    fn counts(&mut self, subscription: &str) -> impl Future<Output = Result<RowCounts>> + Send;

    /// Deletes old rows that Postrider delivered, and their notes. Returns how many rows, and how many notes.
    fn delete_own(&mut self, purge: &Purge) -> impl Future<Output = Result<(u64, u64)>> + Send;

    /// Deletes old rows that were delivered, whichever program delivered them. Returns how many.
    fn delete_delivered(&mut self, purge: &Purge) -> impl Future<Output = Result<u64>> + Send;

    /// Records deliveries of rows that move to another outbox in the same transaction. Returns as
    /// [`RowConnection::record`] does.
    fn record(
        &mut self,
        settlement: &Settlement,
        plan: &SettlePlan,
    ) -> impl Future<Output = Result<Option<usize>>> + Send;

    /// When each note was written first and last.
    fn note_times(&mut self) -> impl Future<Output = Result<Vec<(String, Timestamp, Timestamp)>>> + Send;

    /// How often operators changed rows of a subscription; 0 if there is none.
    fn changes(&mut self, name: &str) -> impl Future<Output = Result<i64>> + Send;

    /// Counts one more change by an operator.
    fn raise_changes(&mut self, name: &str) -> impl Future<Output = Result<()>> + Send;

    /// Sets the operator's pause, or removes it. Returns whether there is such a subscription.
    fn set_paused(&mut self, name: &str, reason: Option<&str>) -> impl Future<Output = Result<bool>> + Send;

    /// The row with this event id, if the table has a column for it that is not its key, and an index.
    fn find_by_event_id(&mut self, _id: &str) -> impl Future<Output = Result<Option<String>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Transactions that have written to the table and are still open, as far as the database shows them.
    fn open_writers(&mut self) -> impl Future<Output = Result<Vec<OpenWriter>>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// Excludes these rows from retention: they were moved to another outbox.
    fn exclude_from_retention(&mut self, ids: &[String]) -> impl Future<Output = Result<()>> + Send;

    /// Writes the events to the other outbox.
    fn write(&mut self, batch: AdoptionBatch) -> impl Future<Output = Result<()>> + Send;
}

/// The error of a database that does not have layout `eventlog`.
pub(crate) fn no_notifications() -> Error {
    Error::new(Code::LayoutDiffers, "this database does not have layout eventlog")
}
