//! What the checkers observe.

use postrider::Position;
use postrider::ledger::ParkedState;
use postrider::relay::brain::{Routed, SubscriptionState, Term};
use postrider::sink::Outcome;
use postrider::store::{Epoch, Settlement};

use super::event_queue::DriverId;

/// One term of one driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) driver: DriverId,
    pub(crate) term: Term,
}

/// The sink's outcome for one message, and whether the destination was down at that moment.
#[derive(Debug, Clone)]
pub(crate) struct ReportedOutcome {
    pub(crate) written: usize,
    pub(crate) outcome: Outcome,
    pub(crate) outage: bool,
}

/// One thing that a checker may use.
#[derive(Debug)]
pub(crate) enum Observation<'a> {
    /// The database granted the lease.
    Granted { owner: Owner, epoch: Epoch, clean: bool },
    /// A brain received events, from the log or parked ones.
    Known { owner: Owner, events: &'a [Routed] },
    /// A brain ran one step.
    Stepped { owner: Owner, snapshot: &'a SubscriptionState },
    /// A brain publishes a batch.
    Publishing { owner: Owner, messages: &'a [Routed] },
    /// A message became visible at its destination.
    Delivered { owner: Owner, written: usize },
    /// A brain received the outcomes of a batch.
    Answered { owner: Owner, answers: &'a [ReportedOutcome] },
    /// A brain parked an event, in any state.
    Parked { owner: Owner, position: Position, state: ParkedState },
    /// The database accepted a settlement.
    Settled { owner: Owner, settlement: &'a Settlement },
    /// The database accepted an owner's halt or pause.
    Stopped { owner: Owner, epoch: Epoch },
    /// A frozen relay continues.
    Thawed,
    /// The database was restored to an older state; `whole`: including the subscriptions.
    Restored { whole: bool },
    /// The operator accepted the history, and the subscription starts again.
    Accepted { subscription: usize },
    /// An operator changed parked rows.
    Operated { subscription: usize },
    /// An operator asked to deliver this many finished events of a subscription again.
    Replayed { subscription: usize, events: u64 },
    /// A destination went down.
    OutageBegan { destination: usize },
}

/// Positions of routed events, for the trace.
pub(crate) fn positions(events: &[Routed]) -> Vec<i64> {
    events.iter().map(|event| event.position).map(Position::get).collect()
}

impl Owner {
    pub(crate) fn relay(&self) -> usize {
        self.driver.relay
    }

    pub(crate) fn subscription(&self) -> usize {
        self.driver.subscription
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let DriverId { relay, incarnation, subscription } = self.driver;
        write!(f, "r{relay}.{incarnation}/s{subscription}.{}", self.term.0)
    }
}
