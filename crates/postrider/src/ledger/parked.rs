//! Parked events: they could not be delivered at once, and wait in a separate table.

use crate::{Position, Timestamp};

/// One parked event of one subscription. The row is in the database, so it survives the relay; while it exists,
/// retention does not delete the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedRow {
    /// The event.
    pub position: Position,
    /// Its key, if it has one: later events of the key wait behind it.
    pub key: Option<String>,
    /// Its destination, if a route was found.
    pub destination: Option<String>,
    /// Why it is here.
    pub state: ParkedState,
    /// The attempts that counted.
    pub attempts: u32,
    /// The earliest time of the next attempt, for `retry`.
    pub next_attempt_at: Option<Timestamp>,
    /// The last error.
    pub last_error: Option<String>,
    /// An operator asked to deliver it again; its messages say so.
    pub redelivery: Option<Redelivery>,
}

/// Why an operator's request delivers an event again. The message has it as a header, because the event may arrive after
/// later events of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Redelivery {
    /// It was dead, and an operator retried it.
    Retry,
    /// It was delivered before, and an operator replays it.
    Replay,
}

impl Redelivery {
    /// Its name in the table and in the header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Replay => "replay",
        }
    }

    /// The one with this name. Any other text counts as a retry: the message must not arrive without its header.
    pub fn from_word(word: &str) -> Self {
        if word == "replay" { Self::Replay } else { Self::Retry }
    }
}

impl ParkedRow {
    /// Copies key, destination and the operator's request from the row that it replaces, if it has none: when the state
    /// of a row changes, its event may no longer be in memory.
    pub fn keep_names_of(&mut self, old: Self) {
        self.key = self.key.take().or(old.key);
        self.destination = self.destination.take().or(old.destination);
        self.redelivery = self.redelivery.or(old.redelivery);
    }
}

/// The reason in the row of an event that no routing rule matched. An unrouted event with another reason has a route, and no
/// schema, for example.
#[cfg(any(feature = "relay", feature = "_store"))]
pub(crate) const NO_RULE: &str = "no rule matches";

/// Why an event is parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParkedState {
    /// Failed; will be tried again.
    Retry,
    /// Waits for an earlier event of its key.
    Behind,
    /// Its destination is down; nothing counts as an attempt.
    Held,
    /// Given up. An operator may retry it.
    Dead,
    /// It expired before it could be delivered.
    Expired,
    /// No route matched it.
    Unrouted,
}

impl ParkedState {
    /// All states.
    pub const ALL: &'static [Self] =
        &[Self::Retry, Self::Behind, Self::Held, Self::Dead, Self::Expired, Self::Unrouted];

    /// The name of the state in the table.
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

    /// The state with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|state| state.as_str() == word)
    }

    /// Whether only an operator can change it.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Dead | Self::Expired)
    }
}
