//! What goes into the brain and what comes out: the whole of its contact with the world.

use std::sync::Arc;
use std::time::Duration;

use super::keys::{DestinationId, KeyId};
use crate::ledger::{ParkedRow, ParkedState};
use crate::route::Delivery;
use crate::sink::Outcome;
use crate::store::{Acquired, Budget, Epoch, Loaded, Renewed, Settled, Settlement};
use crate::{Code, Event, Position};

/// One ownership of the lease, or one try to get it. A reply to an earlier one is ignored: nothing the
/// brain knew survives the loss of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Term(pub u64);

/// Names a batch between its publishing and its outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// An event that went through the router, as the brain sees it.
#[derive(Debug, Clone)]
pub struct Routed {
    /// Where it stands in the outbox.
    pub position: Position,
    /// What orders it.
    pub key: KeyId,
    /// What the router said.
    pub disposition: Disposition,
    /// The event itself; the brain looks only at its policy fields.
    pub event: Arc<Event>,
}

/// What the router said of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// Send it there.
    Deliver {
        /// The destination's identity, for its breaker.
        id: DestinationId,
        /// Its name.
        name: Arc<str>,
        /// What the rule says besides; `None` if the message is simply the event.
        delivery: Option<Arc<Delivery>>,
    },
    /// The subscription does not want it: it is done.
    Filtered,
    /// No rule matched: hold it back, visibly.
    Unrouted,
}

/// A parked row with the identities of its key and destination.
#[derive(Debug, Clone)]
pub struct ParkedEvent {
    /// What orders it.
    pub key: KeyId,
    /// The row.
    pub row: ParkedRow,
}

/// Something happened.
#[derive(Debug)]
pub enum Input {
    /// Time passed; nothing else.
    Tick,
    /// A wake-up: there may be new events.
    Wake,
    /// The operator paused the subscription, with a reason, or lets it go on.
    Pause(Option<String>),
    /// Finish what is in flight, settle it, give the lease up, stop.
    Shutdown,
    /// Answer to an effect of a term.
    Reply(Term, Reply),
}

/// Answer to an effect. An error answers the effect too, by its code.
#[derive(Debug)]
pub enum Reply {
    /// To [`Effect::Acquire`]. Rows come with their keys' identities.
    Acquired(Result<Acquisition, Code>),
    /// To [`Effect::Renew`].
    Renewed(Result<Renewed, Code>),
    /// To [`Effect::Claim`].
    Claimed(Result<RoutedClaim, Code>),
    /// To [`Effect::Fetch`].
    Fetched(Result<RoutedFetch, Code>),
    /// To [`Effect::Publish`]: one outcome per message.
    Published(BatchId, Vec<Outcome>),
    /// To [`Effect::Settle`].
    Settled(Result<Settled, Code>),
    /// To [`Effect::Release`], whatever came of it.
    Released,
    /// To [`Effect::Pause`], whatever came of it.
    Paused,
}

/// [`Acquired`] with parked rows turned into [`ParkedEvent`]s.
#[derive(Debug)]
pub enum Acquisition {
    /// The lease is ours. The rows of `loaded` are empty; they are in `parked` and `dead`.
    Granted {
        /// The state.
        loaded: Box<Loaded>,
        /// Rows that still need something.
        parked: Vec<ParkedEvent>,
        /// Rows that are dead.
        dead: Vec<ParkedEvent>,
    },
    /// Another process holds it.
    Held {
        /// Who.
        holder: String,
        /// For how long, unless they renew it.
        remaining: Duration,
    },
    /// The subscription waits for an operator.
    Halted(String),
}

impl Acquisition {
    /// Gives every row of a store's answer the identity of its key.
    pub fn from_store(acquired: Acquired, key: impl Fn(&ParkedRow) -> KeyId) -> Self {
        match acquired {
            Acquired::Granted(mut loaded) => {
                let with_key = |row: ParkedRow| ParkedEvent { key: key(&row), row };
                let parked = std::mem::take(&mut loaded.parked).into_iter().map(with_key).collect();
                let dead = std::mem::take(&mut loaded.dead).into_iter().map(with_key).collect();
                Self::Granted { loaded, parked, dead }
            }
            Acquired::Held { holder, remaining } => Self::Held { holder, remaining },
            Acquired::Halted(reason) => Self::Halted(reason),
        }
    }
}

/// What a claim found, routed.
#[derive(Debug)]
pub enum RoutedClaim {
    /// Events in position order.
    Page {
        /// The events.
        events: Vec<Routed>,
        /// Positions that will never hold one, both ends included.
        dead: Vec<(Position, Position)>,
        /// Rows that no event can be made of, and why.
        damaged: Vec<(Position, String)>,
        /// The next claim has something to read.
        more_at_once: bool,
        /// Not everything that was visible has been read.
        left_unread: bool,
    },
    /// The database is not the one it was.
    HistoryChanged(String),
}

/// What was found of the parked events asked for. What is in no list did not fit.
#[derive(Debug, Default)]
pub struct RoutedFetch {
    /// Found and routed again.
    pub events: Vec<Routed>,
    /// No longer in the outbox.
    pub gone: Vec<Position>,
    /// Another process has taken them over.
    pub taken: Vec<Position>,
}

/// Something to do. Each but `Report` and `Stop` is answered by the [`Reply`] of its name.
#[derive(Debug)]
pub enum Effect {
    /// Take the lease and load the state.
    Acquire,
    /// Prolong the lease.
    Renew(Epoch),
    /// Give the lease up.
    Release {
        /// Ours.
        epoch: Epoch,
        /// Everything was settled.
        clean: bool,
    },
    /// Read on in the outbox.
    Claim(Budget),
    /// Read parked events again, as many of these as fit into so many bytes, at least one.
    Fetch(Vec<Position>, usize),
    /// Hand a batch to the sink.
    Publish(BatchId, Vec<Routed>),
    /// Record progress.
    Settle(Settlement),
    /// Stop the subscription for an operator to look at. Not answered.
    Halt {
        /// Ours.
        epoch: Epoch,
        /// Why.
        reason: String,
    },
    /// Pause the subscription, as an operator would. One that could not be written ends with the next renewal, and
    /// is asked for again.
    Pause {
        /// Ours.
        epoch: Epoch,
        /// Why.
        reason: String,
    },
    /// Tell people.
    Report(Report),
    /// The brain is done; call it no more.
    Stop,
}

/// What an operator, a log or a test may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// The lease is ours.
    Leading {
        /// With which right.
        epoch: Epoch,
        /// Whether the last owner left in good order.
        clean: bool,
    },
    /// Another relay has the lease; told once per holder.
    StandingBy {
        /// Who has it.
        holder: String,
    },
    /// The lease is not ours any more.
    Deposed(Deposed),
    /// Waiting for an operator.
    Halted(String),
    /// Paused by an operator, with the reason, or going on.
    Paused(Option<String>),
    /// A destination is taken for down; nothing is counted against its messages.
    BreakerOpened {
        /// Its name.
        destination: Arc<str>,
        /// What it said last.
        error: String,
    },
    /// A destination is up again.
    BreakerClosed {
        /// Its name.
        destination: Arc<str>,
    },
    /// An event left the straight way.
    Parked {
        /// Which.
        position: Position,
        /// How.
        state: ParkedState,
        /// Tries that counted.
        attempts: u32,
        /// More of an event that does not go on by itself.
        about: Option<Box<About>>,
    },
    /// The first try of an event failed, and its destination is not known to be down. It is tried again.
    Failing {
        /// Which.
        position: Position,
        /// More of it.
        about: Box<About>,
    },
    /// A message may have been written twice.
    PossibleDuplicate(Position),
    /// A sink that claims to be prefix safe acknowledged a message after an earlier one of its key failed.
    OrderBroken(Position),
    /// A limit is reached, or there is room again.
    Brake(Option<Brake>),
    /// Another process has changed parked rows. What is in flight is settled, then everything is loaded again.
    ParkedChanged,
}

/// What people need to know of an event that is in trouble.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// The event, unless no event can be made of its row, or it is not in memory.
    pub event: Option<Arc<Event>>,
    /// What orders it.
    pub key: Option<String>,
    /// Where it was to go.
    pub destination: Option<Arc<str>>,
    /// What is wrong.
    pub reason: String,
}

/// A limit that an operator should know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brake {
    /// As many events are parked as may be: nothing new is read.
    ParkedFull,
    /// Progress is in very many pieces, because many positions are open. Reading goes on.
    RangesMany,
}

/// Why a relay stopped being the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deposed {
    /// A renewal found it lost.
    LeaseLost,
    /// It could not be renewed in time.
    LeaseExpired,
    /// A settle found a newer epoch.
    Fenced,
    /// The sink takes nothing more from this owner: a newer one has taken over there.
    FencedBySink,
    /// The database failed in a way that leaves the outcome open.
    StoreFailed(Code),
    /// The database's history changed.
    HistoryChanged,
    /// Another process has changed parked rows: everything is loaded again, at once.
    ParkedChanged,
    /// It was given up in good order.
    Released,
}

impl std::fmt::Display for Deposed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::LeaseLost => f.write_str("another relay holds the lease"),
            Self::LeaseExpired => f.write_str("the lease could not be renewed in time"),
            Self::Fenced => f.write_str("another relay took over"),
            Self::FencedBySink => f.write_str("another relay took over at the destination"),
            Self::StoreFailed(code) => write!(f, "the database failed ({code})"),
            Self::HistoryChanged => f.write_str("the history of the database changed"),
            Self::ParkedChanged => f.write_str("parked rows were changed by another process"),
            Self::Released => f.write_str("the lease was released"),
        }
    }
}
