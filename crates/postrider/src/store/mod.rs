//! The outbox in a database, with one store type per database.
//!
//! | database | default layout | table with a state per row |
//! |---|---|---|
//! | PostgreSQL | `postgres::PostgresStore` | `postgres::PostgresRowStore` |
//! | MySQL, MariaDB | `mysql::MySqlStore` | `mysql::MySqlRowStore` |
//! | SQLite | `sqlite::SqliteStore` | `sqlite::SqliteRowStore` |
//!
//! An application migrates the schema once (`migrate`), opens the store (`connect`, or `open` for a file), writes with
//! `store.outbox()`, and passes the store to [`RelayBuilder::outbox`](crate::relay::RelayBuilder::outbox). The module
//! `admin` has what the program `postrider` offers to operators (migrations, roles, lists and counts of events) in one
//! trait for every database; [`Store`] has the pause, the overview and retention.
//!
//! The methods that the relay calls on a store are internal and change with the relay. They are public for the
//! conformance suite of the testkit, and not shown in this documentation.

// # How a relay uses a store
//
// A relay subscribes once, then acquires the lease of its subscription. With the lease it gets an epoch and the recorded
// state (`Loaded`). While it renews the lease, it claims events, publishes them, and settles what was acknowledged or
// parked. At the end it releases the lease. If it dies instead, the lease expires, and the next owner continues from the
// recorded state with a higher epoch.
//
// # What holds if the process dies
//
// On the default layout, every operation that changes something is one transaction: if the process dies during it,
// either all of it is recorded or nothing. On a table with a state per row, `settle`, `release` and `purge` may take
// several transactions; events whose delivery was not recorded are delivered again.
//
// # Errors
//
// The recovery of an error's code (`Code::recovery`) specifies what the caller does next. After an error with
// `Recovery::Retry`, nothing was changed, and the caller may repeat the call. After any other error the outcome may be
// unknown, and the caller acquires the lease again, which loads the state.

#[cfg(feature = "_server")]
mod address;
#[cfg(feature = "_store")]
pub mod admin;
mod async_store;
#[cfg(feature = "_store")]
mod audit_tx;
#[cfg(feature = "_store")]
mod cleanup_tx;
#[cfg(feature = "_server")]
mod connection;
mod event_counts;
#[cfg(feature = "_store")]
mod event_facts;
#[cfg(feature = "_store")]
mod event_row;
mod failover;
#[cfg(feature = "_store")]
mod history;
#[cfg(feature = "_server")]
mod holes;
mod lease;
#[cfg(feature = "_store")]
mod lease_tx;
mod list;
#[cfg(feature = "_store")]
mod log_tx;
mod notifications;
mod overview;
mod page;
#[cfg(feature = "_store")]
mod page_builder;
#[cfg(feature = "_store")]
mod parked_tx;
pub(crate) mod relays;
#[cfg(feature = "_store")]
mod replay_tx;
#[cfg(feature = "_store")]
mod result_row;
mod retention;
#[cfg(feature = "_store")]
mod row_state;
#[cfg(feature = "_store")]
mod schema;
#[cfg(feature = "_store")]
mod search;
#[cfg(feature = "_server")]
mod server_options;
mod settlement;
mod start;
#[cfg(feature = "_store")]
mod subscription;
#[cfg(feature = "_store")]
mod subscription_tx;
#[cfg(feature = "_server")]
mod tail;
#[cfg(feature = "_server")]
mod takeover;
#[cfg(feature = "_server")]
mod writer_watch;

#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use crate::ledger::{LastSeen, ParkedState, Redelivery};
#[doc(hidden)]
pub use async_store::{AsyncClaimer, AsyncStore};
pub use event_counts::{CountBy, CountGroup, Distribution, EventCounts};
pub use failover::AfterFailover;
pub use lease::Epoch;
#[doc(hidden)]
pub use lease::{Acquired, LeaseRequest, Loaded, Origin, Renewed};
pub use list::{EventFilter, ListedEvent};
#[doc(hidden)]
pub use notifications::{
    FannedOut, MissedNotification, MissedPage, MissedSearch, Notifications, RefusedEvent, Skipped,
};
#[doc(hidden)]
pub use notifications::{HandlerCheck, OpenNotifications};
pub use overview::{
    Backlog, LeaseOverview, Overview, ParkedOverview, SubscriptionOverview, SubscriptionState,
};
#[doc(hidden)]
pub use page::{Budget, Claimed, Claimer, Fetched, Page};
pub use relays::{DestinationDown, RelayError, RelayFacts, RelayOverview};
#[doc(hidden)]
pub use relays::{RELAYS_MAX, RelayReport, RelayRole};
pub use retention::{InboxPurge, InboxPurged, Purge, Purged, RetentionHold, RetentionScope};
#[doc(hidden)]
pub use retention::{PurgeBound, PurgePlan};
#[cfg(feature = "_store")]
pub use row_state::{RowExtras, RowStateStore, RowsMigrated};
#[cfg(feature = "_store")]
pub use schema::{Migrated, Migration, Schema};
#[doc(hidden)]
pub use settlement::{Settled, Settlement};
pub use start::Start;

use std::sync::Arc;

use crate::layout::RowTable;
use crate::ledger::Progress;
use crate::operate::{
    AuditEntry, AuditQuery, AuditRecord, AuditSearch, CleanupBatch, EventSelector, HandlerEntry, InboxItem,
    InboxRead, ParkedChange, ParkedChanged, ParkedItem, ParkedQuery, ReplayBatch, ReplayedBatch,
    SubscriptionChange, SubscriptionPlan, explain::EventFacts,
};
use crate::{BoxFuture, Code, Error, Position, Result};

/// One outbox in one database: the type `Arc<dyn Store>` stands for a store of any database. Several relays in one
/// process may share it.
///
/// The methods below are for operators. THE OTHERS ARE INTERNAL AND UNSTABLE, and therefore hidden: do not implement this
/// trait.
///
/// # Cancel safety
/// If the future of an operation is dropped, the operation may have been carried out or not, as after an error with an
/// unknown outcome.
pub trait Store: Send + Sync + 'static {
    /// Creates the subscription if it does not exist, so that it begins at `start`. An existing one keeps its progress,
    /// and `start` is ignored. Returns whether it was created.
    #[doc(hidden)]
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>>;

    /// Takes the lease if it is free, expired, or already this holder's. Assigns the next epoch and loads the state of
    /// the subscription. Waits for a settle in progress. Once this is committed, a settle with an older epoch changes
    /// nothing. If the holder dies, the lease expires on the database's clock, and the next owner finds the
    /// subscription not [cleanly released](Loaded::clean).
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`] if there is no such subscription.
    #[doc(hidden)]
    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>>;

    /// Extends the lease if it is still held with this epoch. Also returns the operator's pause, and whether another
    /// process has changed parked rows.
    #[doc(hidden)]
    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>>;

    /// Releases the lease, so that another relay need not wait until it expires. `clean` records that nothing was in
    /// flight and everything was settled. Does nothing if the lease was lost.
    #[doc(hidden)]
    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>>;

    /// A reader of the events that are not done in this progress.
    #[doc(hidden)]
    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer>;

    /// The same for the state of a lease. It reads only from the server that the state was loaded from: a server that
    /// has replaced it may contain other events.
    #[doc(hidden)]
    fn claimer_of(&self, _subscription: &str, loaded: &Loaded) -> Box<dyn Claimer> {
        self.claimer(&loaded.progress)
    }

    /// Reads events again by position, in the given order: as many as fit `bytes_max`, and at least one.
    #[doc(hidden)]
    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>>;

    /// The same for inspection: on a table with a state per row, no row is marked as handed out.
    #[doc(hidden)]
    fn peek(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        self.fetch(positions, bytes_max)
    }

    /// Records progress if the epoch is still current: all of it or nothing, except that a table with a state per row
    /// may record it in several transactions. Events that were published and not settled when a relay dies are
    /// published again by the next owner. A parked row that another process has changed since this owner loaded or
    /// settled it is not overwritten, and the result says so. A row is removed whatever its state is now: its event was
    /// delivered.
    #[doc(hidden)]
    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>>;

    /// Sets the operator's pause with its reason, or removes it. The relay learns about it with its next renewal.
    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>>;

    /// The same pause, set by the owner, if the epoch is still current.
    #[doc(hidden)]
    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>>;

    /// Stops the subscription until an operator [accepts](Self::accept_history) the new history. Does nothing if the
    /// database has a higher epoch: then another relay owns the subscription. A lower epoch in the database does not
    /// prevent it: then the database was restored to an older state.
    #[doc(hidden)]
    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>>;

    /// Continues a halted subscription with the database as it is now, from `start`. Rows parked at or above `start`
    /// are removed, because their events are read again. Rows whose position now holds another event are removed, too,
    /// because the parked event no longer exists. The other rows below `start` stay, and so does a pause.
    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>>;

    /// Deletes one batch of events that are old enough and done in every subscription, in one short transaction. Parked
    /// events stay, and so does the highest event that each subscription has seen. Creating or moving a subscription
    /// waits until the batch is deleted.
    ///
    /// # Errors
    /// [`Code::StoreBusy`] if another process is deleting events, or is creating or moving a
    /// subscription.
    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged>>;

    /// Deletes one batch of inbox rows that have expired, in short transactions. A row that another process deletes at the
    /// same time is deleted once.
    fn purge_inbox(&self, _purge: InboxPurge) -> BoxFuture<'_, Result<InboxPurged>> {
        Box::pin(std::future::ready(Ok(InboxPurged::default())))
    }

    /// Records a relay's report about itself, which [`overview`](Self::overview) returns. Reports are only for
    /// operators: they need no lease, and no decision depends on them.
    #[doc(hidden)]
    fn report(&self, _report: RelayReport) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The table, if this outbox is a table with a state per row. It belongs to the application: rows are deleted only
    /// if that is configured, and its column map may lack an order of rows.
    #[doc(hidden)]
    fn row_table(&self) -> Option<&RowTable> {
        None
    }

    /// The fan-out to handlers, if this outbox has layout `eventlog`. Its subscriptions are served by the stores that it
    /// returns, one per handler.
    #[doc(hidden)]
    fn notifications(&self) -> Option<Arc<dyn Notifications>> {
        None
    }

    /// From now on, records which rows this process delivers, so that retention can distinguish them from rows of other
    /// publishers. Does nothing for the default layout, which has no other publishers.
    #[doc(hidden)]
    fn note_deliveries(&self) {}

    /// The state of every subscription, in one snapshot. Needs no lease, does not block the owners and writes nothing.
    /// The backlog of each subscription is counted up to `backlog_max` events. Parked events are counted up to the same
    /// number; all of them, if it is zero.
    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>>;

    /// The names of all subscriptions, in their order.
    ///
    /// # Errors
    /// The database's error.
    fn subscription_names(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Parked events of a subscription that match a filter, in their order. Needs no lease and writes nothing.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if the layout does not have a condition of the filter.
    fn list_parked(&self, _query: ParkedQuery) -> BoxFuture<'_, Result<Vec<ParkedItem>>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// How many parked events of a subscription match a filter, counted up to `rows_max` of the query.
    ///
    /// # Errors
    /// As [`list_parked`](Self::list_parked).
    fn count_parked(&self, _query: ParkedQuery) -> BoxFuture<'_, Result<u64>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Changes parked events for an operator, and writes an audit row, in one transaction: all of it or nothing. Waits for
    /// a settle in progress. The owner notices the change with its next settle or renewal, finishes what is in flight, and
    /// loads its state again; what it delivered meanwhile stays delivered, and is not delivered again.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`], or
    /// [`Code::LayoutDiffers`] if the layout cannot record the change.
    fn change_parked(&self, _change: ParkedChange) -> BoxFuture<'_, Result<ParkedChanged>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Deletes one batch for an operator, by the rules of [`purge`](Self::purge), and writes an audit row, in one
    /// transaction; or, without an audit record, only counts what it would delete.
    ///
    /// # Errors
    /// As [`purge`](Self::purge).
    #[doc(hidden)]
    fn clean_up(&self, _batch: CleanupBatch) -> BoxFuture<'_, Result<Purged>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Parks finished events of a subscription again, one batch of them, and writes an audit row, in one transaction; or,
    /// without an audit record, only counts them.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`], [`Code::HistoryChanged`] if it is halted, or [`Code::LayoutDiffers`].
    #[doc(hidden)]
    fn replay(&self, _batch: ReplayBatch) -> BoxFuture<'_, Result<ReplayedBatch>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Reads rows of an inbox along its key.
    ///
    /// # Errors
    /// The database's error.
    #[doc(hidden)]
    fn read_inbox(&self, _read: InboxRead) -> BoxFuture<'_, Result<Vec<InboxItem>>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Sets the operator's pause with its reason, or removes it, and writes an audit row, in one transaction.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`]
    fn pause_audited(
        &self,
        _subscription: &str,
        _reason: Option<&str>,
        _audit: AuditRecord,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Writes an audit row under this name.
    ///
    /// # Errors
    /// The database's error.
    #[doc(hidden)]
    fn note_audit(&self, _name: &str, _audit: AuditRecord) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Commands of operators, newest first.
    ///
    /// # Errors
    /// The database's error.
    fn list_audit(&self, _query: AuditQuery) -> BoxFuture<'_, Result<Vec<AuditEntry>>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Rows of the audit trail that match a search, newest first. At most the newest 20,000 rows are searched.
    ///
    /// # Errors
    /// The database's error.
    fn find_audit(&self, _search: AuditSearch) -> BoxFuture<'_, Result<Vec<AuditEntry>>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// The registered handlers, with their types, in their order. Only layout `eventlog` has any.
    ///
    /// # Errors
    /// The database's error, or [`Code::LayoutDiffers`] for another layout.
    fn handlers(&self) -> BoxFuture<'_, Result<Vec<HandlerEntry>>> {
        let what = "only layout eventlog registers handlers in the database";
        let hint = "in other layouts each subscription is a handler: see `postrider subscriptions list`";
        Box::pin(std::future::ready(Err(Error::new(Code::LayoutDiffers, what).with_hint(hint))))
    }

    /// What moving a subscription to another start would skip and repeat, counted up to a limit. Writes nothing.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`], or
    /// [`Code::LayoutDiffers`] if the layout has no positions.
    fn plan_subscription(
        &self,
        _subscription: &str,
        _start: Start,
    ) -> BoxFuture<'_, Result<SubscriptionPlan>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Creates, moves or removes a subscription for an operator, and writes an audit row, in one transaction. Returns
    /// whether it changed.
    ///
    /// # Errors
    /// See [`Operator::change_subscription`](crate::operate::Operator::change_subscription).
    fn change_subscription(&self, _change: SubscriptionChange) -> BoxFuture<'_, Result<bool>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// What the outbox knows about one event, for [`Operator::explain`](crate::operate::Operator::explain). Needs no
    /// lease and writes nothing. An event is found by its position, or by the time in its id: the outbox is not read as a
    /// whole.
    ///
    /// # Errors
    /// The database's error.
    fn event_facts(&self, _sought: EventSelector) -> BoxFuture<'_, Result<EventFacts>> {
        Box::pin(std::future::ready(Err(not_operated())))
    }

    /// Wake-ups for committed events, if the database supports them. A relay calls this once, at its start. Wake-ups
    /// only reduce the latency: if one is missed, polling finds the events.
    #[doc(hidden)]
    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        None
    }

    /// Closes the connections after the calls in progress; later calls fail. Call it after the last relay on the store
    /// has shut down. If the store is dropped without it, the connections are closed a little later.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The error of a store that operators cannot change, such as one of a test.
pub(crate) fn not_operated() -> Error {
    Error::new(Code::LayoutDiffers, "this store has no commands for operators")
}

/// A store, or a shared store: the argument of [`RelayBuilder::outbox`](crate::relay::RelayBuilder::outbox).
pub trait IntoStore {
    /// The shared store.
    fn into_store(self) -> Arc<dyn Store>;
}

impl<S: Store> IntoStore for S {
    fn into_store(self) -> Arc<dyn Store> {
        Arc::new(self)
    }
}

impl<S: Store> IntoStore for Arc<S> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

impl IntoStore for Arc<dyn Store> {
    fn into_store(self) -> Arc<dyn Store> {
        self
    }
}

/// Wake-ups from a database; see [`Store::wakes`].
#[doc(hidden)]
pub trait Wakes: Send {
    /// Waits until there may be new events: a wake-up arrived, or may have been missed. Several wake-ups may be
    /// combined into one. If the future is dropped, no wake-up is lost.
    fn next(&mut self) -> BoxFuture<'_, ()>;
}

/// A number of rows as the parameter of a LIMIT.
#[cfg(feature = "_store")]
pub(crate) fn row_limit(rows: impl TryInto<i64>) -> i64 {
    rows.try_into().unwrap_or(i64::MAX)
}
