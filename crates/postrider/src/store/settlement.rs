//! What an owner records about its subscription.

use super::Epoch;
use crate::Position;
use crate::ledger::{Intervals, LastSeen, ParkedRow, Trial};

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
    pub highest: Option<LastSeen>,
    /// The batch that is about to be published on trial, if any. If the process dies with it, the next owner loads it.
    pub trial: Option<Trial>,
    /// Rows to park. Each replaces the row of the same position; if it has no key or destination, that of the old row
    /// is kept.
    pub park: Vec<ParkedRow>,
    /// Positions whose row is removed.
    pub unpark: Vec<Position>,
}

/// The result of [`Store::settle`](super::Store::settle), [`Store::pause_as_owner`](super::Store::pause_as_owner) and
/// [`Store::halt`](super::Store::halt).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Recorded.
    Done,
    /// Recorded, except that parked rows which another process has changed stay as that process left them. The owner
    /// must load its state again before it publishes anything. Only for [`Store::settle`](super::Store::settle).
    ParkedChanged,
    /// The epoch is no longer current, and nothing was recorded.
    Fenced,
}
