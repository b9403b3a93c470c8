//! The future events of a simulation, by time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::operation::OperationId;

/// An event of the simulation. (An [`Event`](postrider::Event) is what the writers write.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimEvent {
    /// A writer continues its transaction.
    Write(usize),
    /// The next fault.
    Fault,
    /// No faults occur from now on.
    StopFaults,
    /// A timer of a brain.
    Tick(DriverId, u64),
    /// A call reaches the database or the destination.
    Perform(OperationId),
    /// The reply reaches the relay.
    Deliver(OperationId),
    /// The publish timeout of the relay has passed.
    TimeOut(OperationId),
    /// A relay that is down starts.
    Start(usize),
    /// A frozen relay continues.
    Thaw(usize),
    /// The outage of a destination ends.
    EndOutage(usize),
    /// The operator ends a pause.
    Resume(usize),
    /// The operator accepts a changed history, if the subscription is halted.
    Accept(usize),
}

/// One brain of one incarnation of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DriverId {
    pub(crate) relay: usize,
    /// The number of starts of the process.
    pub(crate) incarnation: u32,
    pub(crate) subscription: usize,
}

/// Ordered by time. Events at the same time keep the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    events: BTreeMap<(Duration, u64), SimEvent>,
    count: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: Duration, event: SimEvent) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    pub(crate) fn pop(&mut self) -> Option<(Duration, SimEvent)> {
        self.events.pop_first().map(|((at, _), event)| (at, event))
    }
}
