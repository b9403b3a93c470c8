//! The outbox in a database: the operations that the relay needs, with one implementation per database.
//!
//! THIS SEAM IS INTERNAL AND UNSTABLE. It is public so that the testkit can run one conformance suite over every store;
//! it changes whenever the relay needs it to.
//!
//! # How a relay uses a store
//!
//! A relay [subscribes](Store::subscribe) once, then [acquires](Store::acquire) the lease of its subscription. With the
//! lease it gets an [epoch](Epoch) and the recorded [state](Loaded). While it [renews](Store::renew) the lease, it
//! [claims](Claimer::claim) events, publishes them, and [settles](Store::settle) what was acknowledged or parked. At
//! the end it [releases](Store::release) the lease. If it dies instead, the lease expires, and the next owner continues
//! from the recorded state with a higher epoch.
//!
//! # What holds if the process dies
//!
//! On the default layout, every operation that changes something is one transaction: if the process dies during it,
//! either all of it is recorded or nothing. On a table with a state per row, `settle`, `release` and `purge` may take
//! several transactions; events whose delivery was not recorded are delivered again.
//!
//! # Errors
//!
//! The [recovery](crate::Code::recovery) of an error's code says what the caller does next. After an error with
//! [`Recovery::Retry`], nothing was changed, and the caller may repeat the call. After any other error the outcome may
//! be unknown, and the caller acquires the lease again, which loads the state.
//!
//! [`Recovery::Retry`]: crate::Recovery::Retry

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod admin;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod address;
mod async_store;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod connection;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod event_row;
mod failover;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod page_builder;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod history;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod holes;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod lease_tx;
mod list;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod log_tx;
mod notifications;
mod overview;
pub(crate) mod relays;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod row_state;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod schema;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod search;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod server_options;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod subscription;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod tail;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod takeover;
mod event_counts;
mod retention;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod writer_watch;

#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use async_store::{AsyncClaimer, AsyncStore};
pub use event_counts::{CountBy, CountGroup, Distribution, EventCounts};
pub use failover::AfterFailover;
pub use list::{EventFilter, ListedEvent};
pub use notifications::{FannedOut, Notifications};
pub use overview::{Backlog, LeaseOverview, Overview, ParkedOverview, SubscriptionOverview};
pub use relays::{DestinationDown, RelayOverview, RelayReport, RelayRole};
pub use retention::{
    InboxPurge, InboxPurged, Purge, PurgeBound, PurgePlan, Purged, RetentionHold, RetentionScope,
};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use row_state::{RowExtras, RowsMigrated};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use schema::{Migrated, Migration, Schema};

use std::sync::Arc;
use std::time::Duration;

use crate::layout::RowTable;
use crate::ledger::{Intervals, Mark, ParkedRow, Progress, Trial};
use crate::{BoxFuture, Inbox, Outbox, Position, Result, StoredEvent, Timestamp};

/// One outbox in one database. Its operations may be called concurrently, and by several relays in one process.
///
/// # Cancel safety
/// If the future of an operation is dropped, the operation may have been carried out or not, as after an error with an
/// unknown outcome.
pub trait Store: Send + Sync + 'static {
    /// Creates the subscription if it does not exist, so that it begins at `start`. An existing one keeps its progress,
    /// and `start` is ignored. Returns whether it was created.
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>>;

    /// Takes the lease if it is free, expired, or already this holder's. Assigns the next epoch and loads the state of
    /// the subscription. Waits for a settle in progress. Once this is committed, a settle with an older epoch changes
    /// nothing. If the holder dies, the lease expires on the database's clock, and the next owner finds the
    /// subscription not [cleanly released](Loaded::clean).
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`](crate::Code::SubscriptionUnknown) if there is no such subscription.
    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>>;

    /// Extends the lease if it is still held with this epoch. Also returns the operator's pause, and whether another
    /// process has changed parked rows.
    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>>;

    /// Releases the lease, so that another relay need not wait until it expires. `clean` records that nothing was in
    /// flight and everything was settled. Does nothing if the lease was lost.
    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>>;

    /// A reader of the events that are not done in this progress.
    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer>;

    /// The same for the state of a lease. It reads only from the server that the state was loaded from: a server that
    /// has replaced it may contain other events.
    fn claimer_of(&self, _subscription: &str, loaded: &Loaded) -> Box<dyn Claimer> {
        self.claimer(&loaded.progress)
    }

    /// Reads events again by position, in the given order: as many as fit `bytes_max`, and at least one.
    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>>;

    /// The same for inspection: on a table with a state per row, no row is marked as handed out.
    fn peek(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        self.fetch(positions, bytes_max)
    }

    /// Records progress if the epoch is still current: all of it or nothing, except that a table with a state per row
    /// may record it in several transactions. Events that were published and not settled when a relay dies are
    /// published again by the next owner. A parked row that another process has changed since this owner loaded or
    /// settled it is not overwritten; the next renewal reports the change.
    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>>;

    /// Sets the operator's pause with its reason, or removes it. The relay learns about it with its next renewal.
    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>>;

    /// The same pause, set by the owner, if the epoch is still current.
    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>>;

    /// Stops the subscription until an operator [accepts](Self::accept_history) the new history. Does nothing if the
    /// database has a higher epoch: then another relay owns the subscription. A lower epoch in the database does not
    /// prevent it: then the database was restored to an older state.
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
    /// [`Code::StoreBusy`](crate::Code::StoreBusy) if another process is deleting events, or is creating or moving a
    /// subscription.
    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged>>;

    /// Deletes one batch of inbox rows that have expired, in short transactions. A row that another process deletes at the
    /// same time is deleted once.
    fn purge_inbox(&self, _purge: InboxPurge) -> BoxFuture<'_, Result<InboxPurged>> {
        Box::pin(std::future::ready(Ok(InboxPurged::default())))
    }

    /// Records a relay's report about itself, which [`overview`](Self::overview) returns. Reports are only for
    /// operators: they need no lease, and no decision depends on them.
    fn report(&self, _report: RelayReport) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The table, if this outbox is a table with a state per row. It belongs to the application: rows are deleted only
    /// if that is configured, and its column map may lack an order of rows.
    fn row_table(&self) -> Option<&RowTable> {
        None
    }

    /// The fan-out to handlers, if this outbox has layout `eventlog`. Its subscriptions are served by the stores that it
    /// returns, one per handler.
    fn notifications(&self) -> Option<Arc<dyn Notifications>> {
        None
    }

    /// From now on, records which rows this process delivers, so that retention can distinguish them from rows of other
    /// publishers. Does nothing for the default layout, which has no other publishers.
    fn trace_deliveries(&self) {}

    /// The state of every subscription, in one snapshot. Needs no lease, does not block the owners and writes nothing.
    /// The backlog of each subscription is counted up to `backlog_max` events.
    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>>;

    /// A writer for this outbox, with the schema and table of the store. It holds no connection. Set other options,
    /// such as the [`namespace`](Outbox::namespace), on it.
    fn outbox(&self) -> Outbox {
        outbox(self.row_table())
    }

    /// The inbox beside this outbox, for consumers in the same database. It holds no connection. Set the
    /// [`retention`](Inbox::retention) on it.
    fn inbox(&self) -> Inbox {
        Inbox::new()
    }

    /// Wake-ups for committed events, if the database supports them. A relay calls this once, at its start. Wake-ups
    /// only reduce the latency: if one is missed, polling finds the events.
    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        None
    }

    /// Closes the connections after the calls in progress; later calls fail. Call it after the last relay on the store
    /// has shut down. If the store is dropped without it, the connections are closed a little later.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A writer for a table with a state per row, or for the default layout.
fn outbox(table: Option<&RowTable>) -> Outbox {
    match table {
        Some(table) => Outbox::new().rows(table.clone()),
        None => Outbox::new(),
    }
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

/// Reads committed events in position order, each once per claimer. Tracks holes: positions without an event that may
/// still get one. All of that is in memory; after a crash the next owner starts from the recorded progress.
pub trait Claimer: Send {
    /// Reads the next page: holes and tail from one snapshot, with a check that the history did not change before it.
    /// If the future is dropped, no event is lost: a later claim, or the next claimer, reads it.
    fn claim(&mut self, budget: Budget) -> BoxFuture<'_, Result<Claimed>>;
}

/// Wake-ups from a database; see [`Store::wakes`].
pub trait Wakes: Send {
    /// Waits until there may be new events: a wake-up arrived, or may have been missed. Several wake-ups may be
    /// combined into one. If the future is dropped, no wake-up is lost.
    fn next(&mut self) -> BoxFuture<'_, ()>;
}

/// How much one claim may read. At least one event is read, of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Maximum number of events.
    pub events_max: usize,
    /// Maximum number of bytes. All columns count; see [`Event::size_bytes`](crate::Event::size_bytes).
    pub bytes_max: usize,
}

/// Answer to [`Claimer::claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// Events that were not handed out before.
    Page(Page),
    /// The history of the database changed, for this reason. No event was skipped.
    HistoryChanged(String),
}

/// The events of one claim, and what the same scan found out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The events, by ascending position.
    pub events: Vec<StoredEvent>,
    /// Ranges of positions that were proven never to get an event, both ends included. They may overlap positions that
    /// are done.
    pub dead: Vec<(Position, Position)>,
    /// Rows that cannot be read as events, and why. Each is returned once, like an event.
    pub damaged: Vec<(Position, String)>,
    /// There are more events: claim again immediately.
    pub more_at_once: bool,
    /// Not all visible events have been read, or that is unknown. Also set while `holes_full` stops reading; then an
    /// immediate claim does not help.
    pub has_unread: bool,
    /// The number of holes: ranges of positions without an event that may still get one. Every claim reads them again.
    pub holes: usize,
    /// The limit of holes is reached: nothing new is read until some holes are filled or proven dead.
    pub holes_full: bool,
    /// Only for tables with a state per row: rows that another process changed after they were listed and before they
    /// were read.
    pub taken: usize,
}

/// Answer to [`Store::fetch`]. A position that is in none of the lists did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fetched {
    /// The events found.
    pub events: Vec<StoredEvent>,
    /// Positions whose event no longer exists or cannot be read.
    pub gone: Vec<Position>,
    /// Positions whose row another publisher of a shared table has taken. This relay does not deliver them.
    pub taken: Vec<Position>,
}

/// Where a new subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// With the first event that exists. The default, so that no committed event is skipped by accident.
    #[default]
    Beginning,
    /// With the events that are committed from now on. Earlier events are skipped.
    Now,
    /// With the event at this position.
    Position(Position),
    /// With the first event that happened at or after this time.
    Time(Timestamp),
}

/// The format of the configuration: `beginning`, `now`, `position:7`, `time:2026-01-01T00:00:00.000000Z`.
impl std::fmt::Display for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Beginning => f.write_str("beginning"),
            Self::Now => f.write_str("now"),
            Self::Position(position) => write!(f, "position:{position}"),
            Self::Time(time) => write!(f, "time:{time}"),
        }
    }
}

/// Increases with every new owner of a subscription. A settle with an older epoch is refused, so that a relay that lost
/// its lease cannot overwrite the progress of its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub i64);

/// A request for a lease. Its time runs on the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The subscription.
    pub subscription: String,
    /// The name of the relay, unique among running relays.
    pub holder: String,
    /// How long the lease lasts unless it is renewed.
    pub duration: Duration,
}

/// Answer to [`Store::acquire`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The caller now holds the lease.
    Granted(Box<Loaded>),
    /// Another process holds it.
    Held {
        /// Its name.
        holder: String,
        /// When the lease expires unless it is renewed.
        remaining: Duration,
    },
    /// The subscription waits for an operator; see [`Store::halt`].
    Halted(String),
}

/// The state of a subscription when its lease was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The new epoch.
    pub epoch: Epoch,
    /// The recorded progress.
    pub progress: Progress,
    /// The parked rows whose state is not final.
    pub parked: Vec<ParkedRow>,
    /// The dead rows: they block their keys if the policy is configured so.
    pub dead: Vec<ParkedRow>,
    /// The number of parked rows, including final ones.
    pub parked_count: u64,
    /// The last owner released the lease with everything settled. If not, it may have died.
    pub clean: bool,
    /// The reason of the operator's pause, if there is one.
    pub paused: Option<String>,
    /// The server that the state was read from, if another server could replace it.
    pub origin: Option<Origin>,
}

/// One run of one server, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Its cluster and timeline.
    pub history: String,
    /// When it started.
    pub started: String,
}

/// Answer to [`Store::renew`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewed {
    /// Renewed.
    Held {
        /// The reason of the operator's pause, if there is one.
        paused: Option<String>,
        /// Another process has changed, added or removed parked rows since this owner loaded or settled them. Settles
        /// of this owner do not overwrite these rows. It must acquire the lease again to load them.
        parked_changed: bool,
    },
    /// Another relay has the lease, or it was removed.
    Lost,
}

/// Progress to record. It replaces the recorded progress as a whole; parked rows are changed one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The subscription.
    pub subscription: String,
    /// The epoch of the lease. If it is no longer current, nothing is recorded.
    pub epoch: Epoch,
    /// All positions that are done, not only new ones.
    pub done: Intervals,
    /// The highest event seen.
    pub highest: Option<Mark>,
    /// The batch that is about to be published on trial, if any. If the process dies with it, the next owner loads it.
    pub trial: Option<Trial>,
    /// Rows to park. Each replaces the row of the same position; if it has no key or destination, that of the old row
    /// is kept.
    pub park: Vec<ParkedRow>,
    /// Positions whose row is removed.
    pub unpark: Vec<Position>,
}

/// Answer to [`Store::settle`], [`Store::pause_as_owner`] and [`Store::halt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Recorded.
    Done,
    /// The epoch is no longer current, and nothing was recorded.
    Fenced,
}
