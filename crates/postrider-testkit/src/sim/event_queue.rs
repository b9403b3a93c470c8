//! What is going to happen, by time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::operation::OperationId;

/// Something that happens in the world at its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A writer goes on with its transaction.
    Write(usize),
    /// The next fault.
    Fault,
    /// Faults stop for good.
    Heal,
    /// A brain's timer.
    Tick(Seat, u64),
    /// Work reaches the database or the destination.
    Perform(OperationId),
    /// The answer reaches the relay.
    Deliver(OperationId),
    /// The relay waited long enough for the sink.
    TimeOut(OperationId),
    /// A relay that is down starts.
    Start(usize),
    /// A frozen relay goes on.
    Thaw(usize),
    /// A destination is up again.
    EndOutage(usize),
    /// The operator ends a pause.
    Resume(usize),
    /// The operator accepts a changed history, if there is one.
    Accept(usize),
}

/// One brain in one life of one relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seat {
    pub(crate) relay: usize,
    /// Counts the starts of the process.
    pub(crate) life: u32,
    pub(crate) subscription: usize,
}

/// The future, in order; what is due at one moment happens in the order it was planned.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    planned: BTreeMap<(Duration, u64), Happening>,
    count: u64,
}

impl Agenda {
    pub(crate) fn plan(&mut self, at: Duration, happening: Happening) {
        self.count += 1;
        self.planned.insert((at, self.count), happening);
    }

    pub(crate) fn next(&mut self) -> Option<(Duration, Happening)> {
        self.planned.pop_first().map(|((at, _), happening)| (at, happening))
    }
}
