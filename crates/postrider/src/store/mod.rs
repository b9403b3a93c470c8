//! The database behind the relay: the operations the relay needs, one implementation per dialect.
//!
//! THIS SEAM IS INTERNAL AND UNSTABLE. It is public so that the testkit can run one conformance suite
//! over every store; it changes whenever the relay needs it to.
//!
//! Every operation is one transaction, or none. An error whose code says [`Recovery::Again`] promises that
//! nothing happened; after any other the caller loads the subscription again.
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
pub use retention::{Purge, PurgeBound, PurgePlan, Purged, RetentionHold, RetentionScope};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use row_state::{RowExtras, RowsMigrated};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use schema::{Migrated, Migration, Schema};
pub use tally::{Spread, Tally, TallyBy, TallyGroup};

use std::sync::Arc;
use std::time::Duration;

use crate::layout::RowTable;
use crate::ledger::{Intervals, Mark, ParkedRow, Progress, Trial};
use crate::{BoxFuture, Outbox, Position, Result, StoredEvent, Timestamp};

/// One outbox in one database.
pub trait Store: Send + Sync + 'static {
    /// Creates the subscription if it does not exist. An existing one keeps its progress, whatever `start` says.
    /// Answers whether it was created.
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>>;

    /// Takes the lease if it is free, expired, or already this holder's, with a new epoch, and loads
    /// the whole state. Waits for a settle in progress; from here on the old epoch settles nothing.
    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>>;

    /// Renews the lease if it is still held with this epoch.
    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>>;

    /// Releases the lease. `clean`: nothing was in flight and everything was settled. Does nothing if the lease was lost.
    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>>;

    /// Starts reading where the loaded state left off: everything above its floor that is not done.
    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer>;

    /// The same for a state that came with a lease. It reads only from the server that the state came from: a
    /// server that has replaced it since may have other events.
    fn claimer_of(&self, _subscription: &str, loaded: &Loaded) -> Box<dyn Claimer> {
        self.claimer(&loaded.progress)
    }

    /// Reads events again by position, in the order asked, until they exceed `bytes_max` (at least one).
    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>>;

    /// The same for inspection: nothing is marked as handed out.
    fn peek(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        self.fetch(positions, bytes_max)
    }

    /// Records progress, all of it or none, if the epoch is still the subscription's. A parked row that another process has
    /// changed since this owner loaded or settled it is left as it is; the next renewal tells of it.
    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>>;

    /// Sets or clears the operator's pause. The relay learns of it at its next renewal.
    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>>;

    /// The same pause, set by the owner, if the epoch is still the subscription's.
    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>>;

    /// Stops the subscription until an operator accepts the new history, unless another relay was given a higher epoch
    /// since. A lower one in the database is no reason to refuse: then the database was put back to an older state.
    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>>;

    /// The operator's answer to `halt`: go on with the database as it is now, from `start`. Rows parked at or
    /// above it are removed, for their events are read again; and so are those whose position now holds another
    /// event than the one that was parked, which is gone. The others below it stay, and so does a pause.
    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>>;

    /// Deletes one batch of events that every subscription is done with and that are old enough, in one short
    /// transaction: all of it or nothing. What is parked stays, and so does the highest event each
    /// subscription has seen. A subscription that is created or moved meanwhile waits, or makes this one
    /// [`Code::StoreBusy`](crate::Code::StoreBusy); so does another process that deletes.
    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged>>;

    /// Writes down what a relay says of itself, for [`overview`](Self::overview) to tell. Only people read it: it needs
    /// no lease, nothing rests on it, and a failure is no trouble.
    fn report(&self, _report: RelayReport) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The table with a state per row, if this outbox is one: it belongs to its owner, so nothing of it is deleted
    /// unless that is asked for, and its map may not tell the order of rows.
    fn row_table(&self) -> Option<&RowTable> {
        None
    }

    /// From now on, notes which rows are delivered from here, so that retention can tell them from rows that others
    /// delivered. Where every event is ours, there is nothing to note.
    fn trace_deliveries(&self) {}

    /// How every subscription is doing, in one snapshot. Needs no lease, disturbs no owner and writes nothing.
    /// What waits to be read is counted up to `backlog_max` events per subscription.
    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>>;

    /// A writer for this outbox: schema and table are the store's, so the writer cannot disagree with the relay. It
    /// holds no connection. Set the rest on it, such as [`namespace`](Outbox::namespace).
    fn outbox(&self) -> Outbox {
        outbox(self.row_table())
    }

    /// Reports that events were committed, if the database can. A relay asks once, at its start.
    /// Only a hint that saves waiting: events are found by polling all the same.
    fn wakes(&self) -> Option<Box<dyn Wakes>> {
        None
    }

    /// Gives the connections back, once what was asked for is done. For the owner of the store, after the last
    /// relay on it has shut down; later calls fail. A store that is dropped instead closes a little later.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A writer for a table with a state per row, or for the outbox of Postrider.
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

/// Reads committed events in position order, each once per claimer. Keeps the book of holes.
pub trait Claimer: Send {
    /// Reads on. One snapshot: holes, tail and the history check agree with each other.
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

/// Some events and what else one snapshot told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The events read.
    pub events: Vec<StoredEvent>,
    /// Ranges of positions proven never to hold an event, both ends included. May overlap what is done.
    pub dead: Vec<(Position, Position)>,
    /// Rows that no event can be made of, and why. They are handed out once, like events.
    pub damaged: Vec<(Position, String)>,
    /// The next claim has something to read: make it at once.
    pub more_at_once: bool,
    /// Not everything that was visible has been read, or it is not known. Also while nothing new is read because
    /// of `holes_full`, where looking again at once does not help.
    pub left_unread: bool,
    /// Ranges of positions that hold no event and may still get one. Every claim looks at all of them.
    pub holes: usize,
    /// There are as many holes as the store keeps in mind: nothing new is read until some are filled or dead.
    pub holes_full: bool,
    /// Rows with a state of their own that another process has changed between their being found and being read.
    pub taken: usize,
}

/// Answer to [`Store::fetch`]. A position that is in no list did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fetched {
    /// The events found.
    pub events: Vec<StoredEvent>,
    /// Positions that hold no event any more, or one that no event can be made of.
    pub gone: Vec<Position>,
    /// Positions whose event another process has taken over, where rows can be shared: they are done with.
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

/// Counts the owners of a subscription; a settle with an old one is refused.
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
    /// Whether the last owner left in good order.
    pub clean: bool,
    /// The operator's pause, with its reason.
    pub paused: Option<String>,
    /// Which server told all this, where one may take the place of another.
    pub origin: Option<Origin>,
}

/// One life of one server.
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
    /// Prolonged. With the operator's pause, if one is set.
    Held {
        /// Why it is paused, if it is.
        paused: Option<String>,
        /// Another process has changed, added or removed parked rows since this owner loaded or settled them. Its settles leave
        /// these rows alone; it has to load everything again.
        parked_changed: bool,
    },
    /// It is no longer ours.
    Lost,
}

/// Progress to record. The new state replaces the old one as a whole, the parked rows by difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Whose progress.
    pub subscription: String,
    /// With which right.
    pub epoch: Epoch,
    /// All that is done.
    pub done: Intervals,
    /// The highest event seen.
    pub highest: Option<Mark>,
    /// Batch about to be tried, or none.
    pub trial: Option<Trial>,
    /// Rows to write, replacing those of the same position; where a new row has no key or destination, the old
    /// one's stays.
    pub park: Vec<ParkedRow>,
    /// Rows to remove.
    pub unpark: Vec<Position>,
}

/// Answer to [`Store::settle`], [`Store::pause_as_owner`] and [`Store::halt`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Recorded.
    Done,
    /// The epoch is not ours any more; nothing was recorded.
    Fenced,
}
