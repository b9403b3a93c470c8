//! What a database has to bring: the verbs of a table with a state per row, in its own SQL.
//!
//! [`RowStateStore`](super::store::RowStateStore) decides, a dialect does. There are three levels, because some verbs need
//! a connection that outlives a transaction and some need one transaction for several steps:
//!
//! - [`RowDialect`]: the connections of one outbox.
//! - [`RowConnection`]: verbs that are a transaction each, and leases, which belong to a connection.
//! - [`RowTx`]: steps within a transaction. What the steps come to is a [`TxVerb`], written once for all databases.
//!
//! SQLite blocks, so its transactions run on the thread that owns the connection. Its steps never wait, so a verb is done
//! when it was polled once. See adr/0052-one-row-state-store.md.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::load::{NotedRow, SubscriptionRow, WaitingRow};
use super::plan::SettlePlan;
use super::read::{Read, Which};
use super::refused::{MarkedRows, mark_in_pieces};
use super::session_rows::{RowClaim, RowId};
use crate::adopt::Parcel;
use crate::layout::RowTable;
use crate::store::{
    Acquired, Budget, Epoch, LeaseOverview, LeaseRequest, Purge, RelayOverview, RelayReport, Renewed,
    Settled, Settlement, Wakes,
};
use crate::{BoxFuture, Result, Timestamp};

/// Which connection a verb uses. Reading ahead, settling and cleaning must not wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Leases, settlements and the verbs of an operator.
    Settler,
    /// Finds and marks due rows.
    Claimer,
    /// Reads rows by id, and everything at once for people.
    Reader,
    /// Deletes old rows and records what relays report.
    Cleaner,
}

/// The connections to one outbox with a state per row.
pub(crate) trait RowDialect: Send + Sync + 'static {
    /// The right to use one connection.
    type Connection<'a>: RowConnection
    where
        Self: 'a;

    /// A release that failed because its connection was cut is tried once more over another. Without that, every relay
    /// would wait for the lease to expire.
    const RELEASES_AGAIN: bool = false;

    /// The table.
    fn table(&self) -> &Arc<RowTable>;

    /// Whether rows are marked in the table before they are handed out.
    fn marks_rows(&self) -> bool;

    /// Whether rows are locked while they are handed out.
    fn locks_rows(&self) -> bool {
        false
    }

    /// Waits for a connection.
    fn connection(&self, role: Role) -> impl Future<Output = Result<Self::Connection<'_>>> + Send;

    /// A second connection that can record deliveries beside a settlement, if one is ready.
    fn helper(&self) -> Option<Self::Connection<'_>> {
        None
    }

    /// So many rows are about to be handed out, and will be settled.
    fn prepare_helper(&self, _rows: usize) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Releases locks of rows that are settled; `in_use` are the claims that have rows left.
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

    /// See [`Store::wakes`](crate::store::Store::wakes).
    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        None
    }

    /// See [`Store::close`](crate::store::Store::close).
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// One connection, for one caller at a time.
pub(crate) trait RowConnection: Send {
    /// Runs a verb in a transaction: all of it is committed, or none.
    fn write<V: TxVerb>(&mut self, verb: V) -> impl Future<Output = Result<V::Answer>> + Send;

    /// Runs a verb in a transaction that sees one snapshot and writes nothing.
    fn read_snapshot<V: TxVerb>(&mut self, verb: V) -> impl Future<Output = Result<V::Answer>> + Send;

    /// Refuses a connection that leads to another server than the lease was taken on.
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

    /// Whether the lease was taken on the server behind this connection: only there it can be given up.
    fn took_lease_here(&mut self, _subscription: &str) -> Result<bool> {
        Ok(true)
    }

    /// See [`Store::renew`](crate::store::Store::renew).
    fn renew(&mut self, lease: LeaseRequest, epoch: Epoch) -> impl Future<Output = Result<Renewed>> + Send;

    /// See [`Store::release`](crate::store::Store::release).
    fn release(
        &mut self,
        subscription: String,
        epoch: Epoch,
        clean: bool,
    ) -> impl Future<Output = Result<()>> + Send;

    /// See [`Store::pause`](crate::store::Store::pause).
    fn pause(
        &mut self,
        subscription: String,
        reason: Option<String>,
    ) -> impl Future<Output = Result<()>> + Send;

    /// See [`Store::pause_as_owner`](crate::store::Store::pause_as_owner).
    fn pause_as_owner(
        &mut self,
        subscription: String,
        epoch: Epoch,
        reason: String,
    ) -> impl Future<Output = Result<Settled>> + Send;

    /// See [`Store::halt`](crate::store::Store::halt).
    fn halt(
        &mut self,
        subscription: String,
        epoch: Epoch,
        reason: String,
    ) -> impl Future<Output = Result<Settled>> + Send;

    /// See [`Store::report`](crate::store::Store::report).
    fn report(&mut self, report: RelayReport) -> impl Future<Output = Result<()>> + Send;

    /// Ids of due rows in their order, at most so many.
    fn list(&mut self, rows_max: usize) -> impl Future<Output = Result<Vec<RowId>>> + Send;

    /// Rows by id, in the order asked, until the budget is used up; at least one.
    fn read(
        &mut self,
        ids: &[RowId],
        budget: Budget,
        which: Which,
    ) -> impl Future<Output = Result<Read>> + Send;

    /// Marks rows as being published, if they have as many attempts as they were seen with. Returns those that were
    /// marked.
    ///
    /// # Errors
    /// [`RowRefused`](crate::Code::RowRefused) if the table refuses to mark one of them; then none is marked.
    fn mark(
        &mut self,
        subscription: &str,
        epoch: Epoch,
        rows: &[(RowId, i64)],
    ) -> impl Future<Output = Result<HashMap<RowId, RowClaim>>> + Send;

    /// Takes rows so that no other publisher can: marks them, or locks them.
    fn take_rows(
        &mut self,
        subscription: &str,
        epoch: Epoch,
        rows: Vec<(RowId, i64)>,
    ) -> impl Future<Output = Result<MarkedRows>> + Send
    where
        Self: Sized,
    {
        mark_in_pieces(self, subscription, epoch, rows)
    }

    /// Records a settlement, all of it or nothing. If `is_noted`, and all rows were still ours, the delivered rows are noted
    /// for retention. Returns how many rows were changed, `None` if the lease is not ours.
    fn record(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
        is_noted: bool,
    ) -> impl Future<Output = Result<Option<usize>>> + Send;

    /// The same for deliveries alone, beside a settlement. Nothing is noted.
    fn record_deliveries(
        &mut self,
        settlement: &Settlement,
        plan: Arc<SettlePlan>,
    ) -> impl Future<Output = Result<Option<usize>>> + Send {
        self.record(settlement, plan, false)
    }

    /// Notes delivered rows for retention. A note that fails only keeps its row from being deleted.
    fn note_delivered(&mut self, _ids: &[String]) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Deletes what has expired beside the outbox, where the layout has such a table. Returns whether there may be more.
    fn delete_expired(&mut self, _rows_max: usize) -> impl Future<Output = Result<bool>> + Send {
        std::future::ready(Ok(false))
    }
}

/// Several steps in one transaction, the same on every database.
pub(crate) trait TxVerb: Send + 'static {
    /// What comes of it.
    type Answer: Send + 'static;

    /// Runs the steps. An error rolls the transaction back.
    fn run<T: RowTx>(self, tx: &mut T) -> impl Future<Output = Result<Self::Answer>> + Send;
}

/// One subscription, as its row says.
#[derive(Debug)]
pub(crate) struct SubscriptionStatus {
    /// Its name.
    pub(crate) name: String,
    /// Counts its owners.
    pub(crate) epoch: Epoch,
    /// Whether the last owner left in good order.
    pub(crate) clean: bool,
    /// Why it is paused, if it is.
    pub(crate) paused: Option<String>,
    /// Why it is halted, if it is.
    pub(crate) halted: Option<String>,
}

/// Rows counted by state, and the creation of the first and the last that is undelivered.
#[derive(Debug)]
pub(crate) struct RowCounts {
    /// Pending, being published, failed and due again, given up, delivered; and how many of those given up are unrouted.
    pub(crate) by_state: [u64; 6],
    /// The first and the last.
    pub(crate) undelivered: [Option<Timestamp>; 2],
}

/// Rows that are neither done nor noted.
#[derive(Debug, Default)]
pub(crate) struct WaitingRows {
    /// How many, counted up to a limit.
    pub(crate) events: u64,
    /// What the first is ordered by.
    pub(crate) first: Option<Timestamp>,
    /// When the oldest was created.
    pub(crate) oldest: Option<Timestamp>,
}

/// One transaction.
pub(crate) trait RowTx: Send {
    /// Creates the subscription if the table has none at all. Returns whether it did.
    fn create_subscription(&mut self, name: &str) -> impl Future<Output = Result<bool>> + Send;

    /// All subscriptions: one, or none.
    fn subscriptions(&mut self) -> impl Future<Output = Result<Vec<SubscriptionStatus>>> + Send;

    /// Raises the epoch and ends a halt: the database is accepted as it is. Returns whether there is such a subscription.
    fn accept_history(&mut self, name: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Deletes the lease, no matter who holds it.
    fn delete_lease(&mut self, name: &str) -> impl Future<Output = Result<()>> + Send;

    /// Whether a row is due.
    fn has_due_row(&mut self) -> impl Future<Output = Result<bool>> + Send;

    /// Why the lease cannot be had now, if so: the subscription is halted, or another process has it.
    fn refusal(&mut self, lease: &LeaseRequest) -> impl Future<Output = Result<Option<Acquired>>> + Send;

    /// The row of the subscription, locked until the end of the transaction, and its epoch.
    fn lock_subscription(
        &mut self,
        name: &str,
    ) -> impl Future<Output = Result<Option<(Epoch, SubscriptionRow)>>> + Send;

    /// Records the lease and raises the epoch, which fences the last owner.
    fn take_lease(&mut self, lease: &LeaseRequest, epoch: Epoch) -> impl Future<Output = Result<()>> + Send;

    /// Takes the marks off rows that are not settled, if the epoch is the subscription's. Returns how many rows.
    ///
    /// # Errors
    /// [`RowRefused`](crate::Code::RowRefused) if the table refuses that.
    fn give_back(&mut self, name: &str, epoch: Epoch) -> impl Future<Output = Result<u64>> + Send;

    /// Rows that carry a mark of an earlier owner.
    fn marked_rows(&mut self) -> impl Future<Output = Result<Vec<(String, RowClaim)>>> + Send;

    /// How many rows other publishers have marked: within ten minutes, and in all. `None` where the layout has no mark.
    fn foreign_marks(&mut self) -> impl Future<Output = Result<Option<(i64, i64)>>> + Send;

    /// All notes, beside what the table says of their rows.
    fn notes(&mut self) -> impl Future<Output = Result<Vec<NotedRow>>> + Send;

    /// Rows without a note that must wait, where the table says so.
    fn waiting(&mut self) -> impl Future<Output = Result<Vec<WaitingRow>>> + Send;

    /// Deletes notes.
    fn forget(&mut self, ids: &[String]) -> impl Future<Output = Result<()>> + Send;

    /// The database's clock.
    fn now(&mut self) -> impl Future<Output = Result<Timestamp>> + Send;

    /// What the newest row is ordered by.
    fn newest(&mut self) -> impl Future<Output = Result<Option<Timestamp>>> + Send;

    /// Rows that are neither done nor noted, at most so many.
    fn backlog(&mut self, rows_max: u64) -> impl Future<Output = Result<WaitingRows>> + Send;

    /// Who has the lease.
    fn lease(&mut self, name: &str) -> impl Future<Output = Result<Option<LeaseOverview>>> + Send;

    /// What relays report of themselves.
    fn relays(&mut self, name: &str) -> impl Future<Output = Result<Vec<RelayOverview>>> + Send;

    /// All rows by state.
    fn counts(&mut self) -> impl Future<Output = Result<RowCounts>> + Send;

    /// Deletes old rows that were delivered from here, and their notes. Returns how many rows, and how many notes.
    fn delete_own(&mut self, purge: &Purge) -> impl Future<Output = Result<(u64, u64)>> + Send;

    /// Deletes old rows that were delivered, whichever program delivered them. Returns how many.
    fn delete_delivered(&mut self, purge: &Purge) -> impl Future<Output = Result<u64>> + Send;

    /// Records deliveries of rows that go to another outbox in the same transaction. Returns as
    /// [`RowConnection::record`] does.
    fn record(
        &mut self,
        settlement: &Settlement,
        plan: &SettlePlan,
    ) -> impl Future<Output = Result<Option<usize>>> + Send;

    /// Retention never deletes these rows: they were handed over to another outbox.
    fn keep(&mut self, ids: &[String]) -> impl Future<Output = Result<()>> + Send;

    /// Writes the events to the other outbox.
    fn write(&mut self, parcel: Parcel) -> impl Future<Output = Result<()>> + Send;
}
