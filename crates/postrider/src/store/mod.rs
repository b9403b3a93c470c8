//! The database behind the relay: the operations the relay needs, one implementation per dialect.
//!
//! THIS SEAM IS INTERNAL AND UNSTABLE. It is public so that the testkit can run one conformance suite
//! over every store; it changes whenever the relay needs it to.
//!
//! On the default layout, every operation that changes something is one transaction: a process that dies in it leaves
//! all of it or nothing. On a table with a state per row, settle, release and purge may be several transactions; what
//! settle has not recorded when the process dies is delivered again. An error whose code says [`Recovery::Again`]
//! guarantees that nothing was changed. After any other error the outcome may be unknown, and the caller loads the
//! subscription again.
//!
//! [`Recovery::Again`]: crate::Recovery::Again

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod admin;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod address;
mod async_store;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod connection;
mod failover;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod page_builder;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod history;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod holes;
mod list;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod log_tx;
mod overview;
pub(crate) mod relays;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod row_state;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod schema;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod search;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
mod subscription;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod tail;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod takeover;
mod tally;
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
pub use failover::AfterFailover;
pub use list::{EventFilter, ListedEvent};
pub use overview::{Backlog, LeaseOverview, Overview, ParkedOverview, SubscriptionOverview};
pub use relays::{DestinationDown, RelayOverview, RelayReport, RelayRole};
pub use retention::{
    InboxPurge, InboxPurged, Purge, PurgeBound, PurgePlan, Purged, RetentionHold, RetentionScope,
};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use row_state::{RowExtras, RowsMigrated};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use schema::{Migrated, Migration, Schema};
pub use tally::{Spread, Tally, TallyBy, TallyGroup};

use std::sync::Arc;
use std::time::Duration;

use crate::layout::RowTable;
use crate::ledger::{Intervals, Mark, ParkedRow, Progress, Trial};
use crate::{BoxFuture, Inbox, Outbox, Position, Result, StoredEvent, Timestamp};

/// One outbox in one database.
pub trait Store: Send + Sync + 'static {
    /// Creates the subscription if it does not exist. An existing one keeps its progress, whatever `start` says.
    /// Returns whether it was created.
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>>;

    /// Takes the lease if it is free, expired, or already this holder's, with a new epoch, and loads the whole state.
    /// Waits for a settle in progress; once this is committed, a settle with an older epoch changes nothing. If the
    /// holder dies, the lease expires on the database's clock, and the subscription counts as not cleanly released.
    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>>;

    /// Renews the lease if it is still held with this epoch. Also returns the operator's pause, and whether another
    /// process has changed parked rows.
    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>>;

    /// Releases the lease, so that another relay need not wait until it expires. `clean`: nothing was in flight and
    /// everything was settled. Does nothing if the lease was lost.
    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>>;

    /// Starts to read where the loaded state ended: everything above its floor that is not done.
    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer>;

    /// The same for a state that came with a lease. It reads only from the server that the state came from: a server
    /// that has replaced that one may have other events.
    fn claimer_of(&self, _subscription: &str, loaded: &Loaded) -> Box<dyn Claimer> {
        self.claimer(&loaded.progress)
    }

    /// Reads events again by position, in the order asked, until they exceed `bytes_max` (at least one).
    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>>;

    /// The same for inspection: no row is marked as handed out.
    fn peek(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        self.fetch(positions, bytes_max)
    }

    /// Records progress if the epoch is still the subscription's: all of it or none, except that a table with a state
    /// per row may record it in several transactions. What was published and not settled when a relay dies is published
    /// again by the next owner. A parked row that another process has changed since this owner loaded or settled it is
    /// not overwritten; the next renewal reports it.
    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>>;

    /// Sets or clears the operator's pause. It is stored in the database; the relay reads it with its next renewal.
    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>>;

    /// The same pause, set by the owner, if the epoch is still the subscription's.
    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>>;

    /// Stops the subscription until an operator accepts the new history, unless the database has a higher epoch: then
    /// another relay owns it. A lower epoch does not prevent it: then the database was restored to an older state.
    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>>;

    /// The operator's answer to `halt`: continue with the database as it is now, from `start`. Rows parked at or
    /// above `start` are removed, because their events are read again. Rows whose position now holds another event
    /// are removed too, because the parked event is gone. The other rows below `start` stay, and so does a pause.
    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>>;

    /// Deletes one batch of events that every subscription is done with and that are old enough, in one short
    /// transaction: all of it or nothing. Parked events stay, and so does the highest event that each subscription has
    /// seen. Creating or moving a subscription waits for it, or makes it fail with
    /// [`Code::StoreBusy`](crate::Code::StoreBusy); so does another process that deletes.
    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged>>;

    /// Deletes one batch of inbox rows that have expired, in short transactions. A row that another process deletes at the
    /// same time is deleted once.
    fn purge_inbox(&self, _purge: InboxPurge) -> BoxFuture<'_, Result<InboxPurged>> {
        Box::pin(std::future::ready(Ok(InboxPurged::default())))
    }

    /// Records a relay's report about itself, which [`overview`](Self::overview) returns. It is for operators only:
    /// it needs no lease, no decision depends on it, and a failure does no harm.
    fn report(&self, _report: RelayReport) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The table, if this outbox is a table with a state per row. It belongs to the application: rows are deleted
    /// only if that is configured, and its column map may not define the order of rows.
    fn row_table(&self) -> Option<&RowTable> {
        None
    }

    /// From now on, records which rows this process delivers, so that retention can distinguish them from rows that
    /// other publishers delivered. Does nothing for the default layout, where no other publisher exists.
    fn trace_deliveries(&self) {}

    /// The state of every subscription, in one snapshot. Needs no lease, does not block an owner and writes nothing.
    /// The backlog is counted up to `backlog_max` events per subscription.
    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>>;

    /// A writer for this outbox: schema and table are the store's, so the writer cannot disagree with the relay. It
    /// holds no connection. Set the rest on it, such as [`namespace`](Outbox::namespace).
    fn outbox(&self) -> Outbox {
        outbox(self.row_table())
    }

    /// The inbox beside this outbox, for consumers in the same database. It holds no connection. Set the
    /// [`retention`](Inbox::retention) on it.
    fn inbox(&self) -> Inbox {
        Inbox::new()
    }

    /// Wake-ups for committed events, if the database supports them. A relay calls this once, when it starts. They only
    /// shorten the wait: a relay that misses one finds the events by polling.
    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        None
    }

    /// Closes the connections after the calls in progress. For the owner of the store, after the last relay on it has
    /// shut down; later calls fail. A store that is only dropped closes them a little later.
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

/// A store, or one that is shared: what [`RelayBuilder::outbox`](crate::relay::RelayBuilder::outbox) takes.
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

/// Reads committed events in position order, each once per claimer. Keeps track of holes: positions that hold no
/// event yet. All of that is in memory; after a crash the next owner starts from the recorded progress.
pub trait Claimer: Send {
    /// Reads the next page, in one snapshot, so that holes, tail and the history check agree with each other.
    fn claim(&mut self, budget: Budget) -> BoxFuture<'_, Result<Claimed>>;
}

/// Wake-ups from a database; see [`Store::wakes`].
pub trait Wakes: Send {
    /// Waits until there may be new events: a wake-up arrived, or may have been missed. Several
    /// wake-ups may come as one. Dropping the future loses none.
    fn next(&mut self) -> BoxFuture<'_, ()>;
}

/// How much one claim may read. At least one event is read whatever its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Events at most.
    pub events_max: usize,
    /// Bytes at most: all columns count, see [`Event::size_bytes`](crate::Event::size_bytes).
    pub bytes_max: usize,
}

/// What a claim found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// Events, ascending, none handed out before.
    Page(Page),
    /// The database's history is not the one this claimer knew. Nothing was skipped.
    HistoryChanged(String),
}

/// Some events, and what else the same snapshot showed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The events read.
    pub events: Vec<StoredEvent>,
    /// Ranges of positions proven never to hold an event, both ends included. May overlap what is done.
    pub dead: Vec<(Position, Position)>,
    /// Rows that cannot be read as events, and why. Each is returned once, like an event.
    pub damaged: Vec<(Position, String)>,
    /// There is more to read: claim again immediately.
    pub more_at_once: bool,
    /// Not everything that was visible has been read, or that is unknown. Also set while `holes_full` stops reading;
    /// then an immediate claim does not help.
    pub has_unread: bool,
    /// Ranges of positions that hold no event and may still get one. Every claim reads all of them again.
    pub holes: usize,
    /// The limit of holes is reached: nothing new is read until some are filled or proven dead.
    pub holes_full: bool,
    /// Only for tables with a state per row: rows that another process changed after they were listed and before they
    /// were read.
    pub taken: usize,
}

/// Answer to [`Store::fetch`]. A position that is in no list did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fetched {
    /// The events found.
    pub events: Vec<StoredEvent>,
    /// Positions whose event no longer exists, or cannot be read.
    pub gone: Vec<Position>,
    /// Positions whose row another publisher has taken, where a table is shared with one. They need no delivery from
    /// here.
    pub taken: Vec<Position>,
}

/// Where a new subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Start {
    /// With the first event there is. The default: nothing that was committed is skipped unless asked for.
    #[default]
    Beginning,
    /// With what is committed from now on. Every earlier event is skipped.
    Now,
    /// With this position.
    Position(Position),
    /// With the first event that happened at or after this time, and all after it.
    Time(Timestamp),
}

/// As the configuration writes it: `beginning`, `now`, `position:7`, `time:2026-01-01T00:00:00.000000Z`.
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

/// Increases with every owner of a subscription. A settle with an older epoch is refused, so that a relay that lost its
/// lease cannot overwrite the progress of its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub i64);

/// Who wants which lease for how long. The time runs on the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The subscription to own.
    pub subscription: String,
    /// Name of the relay, unique among running relays.
    pub holder: String,
    /// For how long.
    pub duration: Duration,
}

/// Answer to [`Store::acquire`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The lease is ours.
    Granted(Box<Loaded>),
    /// Another process holds it.
    Held {
        /// Who.
        holder: String,
        /// For how long, unless they renew it.
        remaining: Duration,
    },
    /// The subscription waits for an operator; see [`Store::halt`].
    Halted(String),
}

/// A subscription's whole state, as of the moment its lease was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The new epoch.
    pub epoch: Epoch,
    /// How far it has come.
    pub progress: Progress,
    /// Everything parked that still needs something: all rows whose state is not final.
    pub parked: Vec<ParkedRow>,
    /// Rows that are dead, to block their keys where the policy wants that.
    pub dead: Vec<ParkedRow>,
    /// How many rows are parked, final ones included.
    pub parked_count: u64,
    /// Whether the last owner released the lease with everything settled. If not, it may have died.
    pub clean: bool,
    /// The operator's pause, with its reason.
    pub paused: Option<String>,
    /// The server that the state was read from, where another server may replace it.
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
        /// Why it is paused, if it is.
        paused: Option<String>,
        /// Another process has changed, added or removed parked rows since this owner loaded or settled them. Settles
        /// of this owner do not overwrite these rows; it has to load everything again.
        parked_changed: bool,
    },
    /// It is no longer ours.
    Lost,
}

/// Progress to record. The new state replaces the old one as a whole, the parked rows by difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The subscription.
    pub subscription: String,
    /// The epoch of the lease; a newer one in the database refuses the settlement.
    pub epoch: Epoch,
    /// All positions that are done.
    pub done: Intervals,
    /// The highest event seen.
    pub highest: Option<Mark>,
    /// The batch that is about to be published on trial, if any. The next owner finds it here if the process dies
    /// with it.
    pub trial: Option<Trial>,
    /// Rows to write; each replaces the row of the same position. If the new row has no key or destination, that of
    /// the old row is kept.
    pub park: Vec<ParkedRow>,
    /// Rows to remove.
    pub unpark: Vec<Position>,
}

/// Answer to [`Store::settle`], [`Store::pause_as_owner`] and [`Store::halt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Recorded.
    Done,
    /// The epoch is no longer current; nothing was recorded.
    Fenced,
}
