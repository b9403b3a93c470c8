//! Inputs and effects of the brain: its only interface.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::keys::{DestinationId, KeyId};
use crate::ledger::{ParkedRow, ParkedState, Redelivery};
use crate::route::Delivery;
use crate::sink::Outcome;
use crate::store::{Acquired, Budget, Epoch, LeaseOverview, Loaded, Renewed, Settled, Settlement};
use crate::{Code, Event, Position};

/// One ownership of the lease, or one attempt to get it. A reply to an earlier term is ignored, because the brain
/// drops all its state when it loses the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Term(pub u64);

/// Identifies a batch from its publishing until its outcomes arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

/// An event that went through the router, as the brain sees it.
#[derive(Debug, Clone)]
pub struct Routed {
    /// Its position in the outbox.
    pub position: Position,
    /// Its ordering key.
    pub key: KeyId,
    /// The router's decision.
    pub disposition: Disposition,
    /// Failed attempts that counted before.
    pub attempts: u32,
    /// An operator asked to deliver it again.
    pub redelivery: Option<Redelivery>,
    /// The event itself; the brain reads only its policy fields.
    pub event: Arc<Event>,
}

/// The router's decision about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// Send it there.
    Deliver {
        /// The destination's identity, for its breaker.
        id: DestinationId,
        /// Its name.
        name: Arc<str>,
        /// What else the rule sets; `None` if the message is the event unchanged.
        delivery: Option<Arc<Delivery>>,
    },
    /// The subscription does not want it: it is done.
    Filtered,
    /// No rule matched, or the encoder lacks something for it, with the reason: it is parked until a relay takes over that can
    /// deliver it.
    Unrouted(Cow<'static, str>),
}

/// A parked row with the identities of its key and destination.
#[derive(Debug, Clone)]
pub struct ParkedEvent {
    /// Its ordering key.
    pub key: KeyId,
    /// The row.
    pub row: ParkedRow,
}

/// An input of the brain.
#[derive(Debug)]
pub enum Input {
    /// Time passed; nothing else.
    Tick,
    /// A wake-up: there may be new events.
    Wake,
    /// The operator paused the subscription, with a reason, or resumed it.
    Pause(Option<String>),
    /// Wait for messages in flight, settle them, release the lease, stop.
    Shutdown,
    /// Answer to an effect of a term.
    Reply(Term, Reply),
}

/// The reply to an effect. A failed call replies with the code of its error.
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
    /// To [`Effect::Publish`], before the last reply: outcomes that are known already, by their index in the batch.
    PublishedEarly(BatchId, Vec<(usize, Outcome)>),
    /// To [`Effect::Publish`]: one outcome per message, also of those that were known early.
    Published(BatchId, Vec<Outcome>),
    /// To [`Effect::Settle`].
    Settled(Result<Settled, Code>),
    /// To [`Effect::Release`], whether it succeeded or not. Also sent after [`Effect::Halt`], and ignored then.
    Released,
    /// To [`Effect::Pause`], whether it succeeded or not.
    Paused,
}

/// [`Acquired`] with parked rows turned into [`ParkedEvent`]s.
#[derive(Debug)]
pub enum Acquisition {
    /// The lease is granted. The rows of `loaded` are empty; they are in `parked` and `dead`.
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
        /// The name of that process.
        holder: String,
        /// Until the lease expires, unless it is renewed.
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
        /// Empty positions: no event will ever have one of them. Ranges, both ends included.
        empty_positions: Vec<(Position, Position)>,
        /// Rows that cannot be read as events, and why.
        damaged: Vec<(Position, String)>,
        /// The next claim has something to read.
        more_at_once: bool,
        /// Not everything that was visible has been read.
        has_unread: bool,
    },
    /// The history of the database changed, and why.
    HistoryChanged(String),
}

/// The result of [`Effect::Fetch`], routed. A position that is in no list did not fit.
#[derive(Debug, Default)]
pub struct RoutedFetch {
    /// Found and routed again.
    pub events: Vec<Routed>,
    /// No longer in the outbox.
    pub gone: Vec<Position>,
    /// Taken by another publisher.
    pub taken: Vec<Position>,
}

/// Something to do. Each except `Report` and `Stop` is answered by a [`Reply`].
#[derive(Debug)]
pub enum Effect {
    /// Take the lease and load the state.
    Acquire,
    /// Renew the lease.
    Renew(Epoch),
    /// Release the lease.
    Release {
        /// The epoch of the lease.
        epoch: Epoch,
        /// Everything was settled.
        clean: bool,
    },
    /// Read the next events of the outbox.
    Claim(Budget),
    /// Read parked events again, as many of these as fit into this many bytes, at least one.
    Fetch(Vec<Position>, usize),
    /// Publish a batch.
    Publish(BatchId, Vec<Routed>),
    /// Record progress.
    Settle(Settlement),
    /// Halt the subscription until an operator decides. The term ends with it, so its reply is ignored.
    Halt {
        /// The epoch of the lease.
        epoch: Epoch,
        /// Why.
        reason: String,
    },
    /// Pause the subscription, as an operator would. If the pause could not be stored, the next renewal ends it, and
    /// the next failure requests it again.
    Pause {
        /// The epoch of the lease.
        epoch: Epoch,
        /// Why.
        reason: String,
    },
    /// Log something, and show it in the status.
    Report(Report),
    /// The brain has ended; do not call it again.
    Stop,
}

/// A change of state, for logs, `status` and tests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// This relay holds the lease.
    Leading {
        /// The epoch of the lease.
        epoch: Epoch,
        /// Whether the last owner released the lease cleanly.
        clean: bool,
        /// The lease that it replaces, if it was not released.
        previous: Option<Box<LeaseOverview>>,
    },
    /// Another relay holds the lease; reported once per holder.
    StandingBy {
        /// The holder.
        holder: String,
    },
    /// This relay no longer owns the subscription.
    TermEnded(TermEnd),
    /// Waiting for an operator.
    Halted(String),
    /// Paused, with the reason, or resumed.
    Paused(Option<String>),
    /// A destination is considered down; failures do not count as attempts of its messages.
    BreakerOpened {
        /// Its name.
        destination: Arc<str>,
        /// Its last error.
        error: String,
    },
    /// A destination is up again.
    BreakerClosed {
        /// Its name.
        destination: Arc<str>,
    },
    /// An event was parked.
    Parked {
        /// Which.
        position: Position,
        /// How.
        state: ParkedState,
        /// Attempts that counted.
        attempts: u32,
        /// Details, if the event is not retried automatically.
        details: Option<Box<FailureDetails>>,
    },
    /// The first attempt of an event failed, and its destination is not known to be down. It is retried.
    Failing {
        /// Which.
        position: Position,
        /// Details.
        details: Box<FailureDetails>,
    },
    /// A message may have been written twice.
    PossibleDuplicate(Position),
    /// A sink that claims to be prefix safe acknowledged a message after an earlier one of its key failed.
    OrderBroken(Position),
    /// A limit is reached, or no longer.
    CapacityLimit(Option<CapacityLimit>),
    /// Another process has changed parked rows. Messages in flight are settled, then the state is loaded again.
    ParkedChanged,
}

/// Details of an event that could not be delivered, for operators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailureDetails {
    /// The event, unless its row cannot be read or it is not in memory.
    pub event: Option<Arc<Event>>,
    /// Its ordering key.
    pub key: Option<String>,
    /// Its destination.
    pub destination: Option<Arc<str>>,
    /// What is wrong.
    pub reason: String,
}

/// A limit that an operator should know about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityLimit {
    /// The maximum number of events is parked: no new events are read.
    ParkedRows,
    /// The progress consists of very many separate ranges, because many positions are not done. Reading continues.
    DoneRanges,
}

/// Why a relay stopped being the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TermEnd {
    /// A renewal found that another relay holds the lease.
    LeaseLost,
    /// The lease could not be renewed in time.
    LeaseExpired,
    /// A settle found a newer epoch.
    Fenced,
    /// The sink accepts nothing more from this relay: another one has taken over there.
    FencedBySink,
    /// The database failed in a way that leaves the outcome open.
    StoreFailed(Code),
    /// The database's history changed.
    HistoryChanged,
    /// Another process has changed parked rows: the state is loaded again immediately.
    ParkedChanged,
    /// The relay released the lease.
    Released,
}

impl std::fmt::Display for TermEnd {
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
