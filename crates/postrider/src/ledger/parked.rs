//! Events that could not simply be delivered and wait, or lie, beside the log.

use crate::{Position, Timestamp};

/// One event of one subscription that left the straight way. The row outlives the relay; it keeps the
/// event from being cleaned up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedRow {
    /// The event.
    pub position: Position,
    /// Its key, if it has one: later events of the key wait behind it.
    pub key: Option<String>,
    /// Where it was to go, if a route was found.
    pub destination: Option<String>,
    /// Why it is here.
    pub state: ParkedState,
    /// Tries that counted against it.
    pub attempts: u32,
    /// Not before this, for `retry`.
    pub next_attempt_at: Option<Timestamp>,
    /// What the last failure said.
    pub last_error: Option<String>,
}

impl ParkedRow {
    /// Takes over the key and the destination of the row it replaces, where it has none of its own: who
    /// changes the state of a row may no longer have its event at hand.
    pub fn keep_names_of(&mut self, old: Self) {
        self.key = self.key.take().or(old.key);
        self.destination = self.destination.take().or(old.destination);
    }
}

/// Why an event is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParkedState {
    /// Failed; will be tried again.
    Retry,
    /// Waits for an earlier event of its key.
    Behind,
    /// Its destination is down; it has done nothing wrong.
    Held,
    /// Given up. An operator may retry it.
    Dead,
    /// Its time ran out before it could be delivered.
    Expired,
    /// No route matched it.
    Unrouted,
}

impl ParkedState {
    /// All states.
    pub const ALL: [Self; 6] =
        [Self::Retry, Self::Behind, Self::Held, Self::Dead, Self::Expired, Self::Unrouted];

    /// The word in the table.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Behind => "behind",
            Self::Held => "held",
            Self::Dead => "dead",
            Self::Expired => "expired",
            Self::Unrouted => "unrouted",
        }
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Nothing more will happen to it without an operator.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Dead | Self::Expired)
    }
}
