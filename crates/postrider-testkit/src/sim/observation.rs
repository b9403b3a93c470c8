//! The events that the checkers observe, as they happen.

use postrider::Position;
use postrider::relay::brain::{Routed, SubscriptionState, Term};
use postrider::sink::Outcome;
use postrider::store::{Epoch, Settlement};

use super::agenda::Seat;

/// One ownership of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) seat: Seat,
    pub(crate) term: Term,
}

/// What the sink said of one message, and whether the destination was down when it said so.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) fact: usize,
    pub(crate) outcome: Outcome,
    pub(crate) outage: bool,
}

/// Something a checker may want to know.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    /// The database gave the lease.
    Granted { owner: Owner, epoch: Epoch, clean: bool },
    /// Events reached a brain, from the log or from among the parked.
    Known { owner: Owner, events: &'a [Routed] },
    /// A brain took a step.
    Stepped { owner: Owner, snapshot: &'a SubscriptionState },
    /// A brain wants a batch published.
    Publishing { owner: Owner, messages: &'a [Routed] },
    /// A message became visible at its destination.
    Written { owner: Owner, fact: usize },
    /// The outcomes of a batch reached the brain.
    Answered { owner: Owner, answers: &'a [Answer] },
    /// A brain put an event aside, in whatever state.
    Parked { owner: Owner, position: Position },
    /// The database said that a settlement took effect.
    Settled { owner: Owner, settlement: &'a Settlement },
    /// The database said that an owner's halt or pause took effect.
    Stopped { owner: Owner, epoch: Epoch },
    /// A frozen relay goes on.
    Thawed,
    /// The database went back to an older state; `whole`: subscriptions too.
    Restored { whole: bool },
    /// The operator accepted the history; the subscription starts again.
    Accepted { subscription: usize },
    /// A destination went down.
    OutageBegan { destination: usize },
}

/// Positions of routed events, for the trace.
pub(crate) fn positions(events: &[Routed]) -> Vec<i64> {
    events.iter().map(|event| event.position).map(Position::get).collect()
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Seat { relay, life, subscription } = self.seat;
        write!(f, "r{relay}.{life}/s{subscription}.{}", self.term.0)
    }
}
