//! Changes of parked events: which state allows which change, and what it does.

use serde::Serialize;

use super::AuditRecord;
use crate::store::ParkedState;

/// Maximum number of events that one transaction changes. While it runs, the relay cannot settle.
pub const BATCH_ROWS_MAX: usize = 1_000;

/// What to do with parked events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParkedAction {
    /// Deliver it as soon as possible, with all its attempts again.
    Retry,
    /// Forget a dead or expired event: this subscription never delivers it.
    Discard,
    /// Forget an event that still waits: this subscription never delivers it, and later events of its key continue.
    Skip,
    /// Give up an event that still waits: it is dead.
    Kill,
}

impl ParkedAction {
    /// Its name in the audit trail.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Discard => "discard",
            Self::Skip => "skip",
            Self::Kill => "kill",
        }
    }

    /// Whether it applies to an event in this state. An expired event is not retried, because it would expire again. An
    /// event behind another one of its key is neither retried nor given up: it waits for that one, and a dead event must
    /// have no earlier event of its key that still waits.
    pub const fn applies_to(self, state: ParkedState) -> bool {
        use ParkedState::{Behind, Dead, Expired, Held, Retry, Unrouted};
        match self {
            Self::Retry => matches!(state, Retry | Held | Unrouted | Dead),
            Self::Discard => matches!(state, Dead | Expired),
            Self::Skip => matches!(state, Retry | Held | Unrouted | Behind),
            Self::Kill => matches!(state, Retry | Held | Unrouted),
        }
    }
}

/// One batch of a change, in one transaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ParkedChange {
    /// The subscription.
    pub subscription: String,
    /// What to do.
    pub action: ParkedAction,
    /// The events: their positions or row ids, at most [`BATCH_ROWS_MAX`].
    pub rows: Vec<String>,
    /// Also retry dead events whose key has moved on.
    pub out_of_order: bool,
    /// What to write to the audit trail. The store adds how many events were changed, and which.
    pub audit: AuditRecord,
}

impl ParkedChange {
    /// A change that retries no dead event out of order.
    pub fn new(
        subscription: impl Into<String>,
        action: ParkedAction,
        rows: Vec<String>,
        audit: AuditRecord,
    ) -> Self {
        Self { subscription: subscription.into(), action, rows, out_of_order: false, audit }
    }

    /// Whether dead events are retried even if their key has moved on.
    #[must_use]
    pub fn out_of_order(mut self, out_of_order: bool) -> Self {
        self.out_of_order = out_of_order;
        self
    }
}

/// What a change did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ParkedChanged {
    /// Events that were changed.
    pub changed: u64,
    /// Dead events that were not retried, because later events of their key may have been delivered.
    pub moved_on: u64,
    /// Events that were not changed because their state does not allow it, or is another one by now.
    pub not_applicable: u64,
}

impl ParkedChanged {
    /// The result of a batch.
    pub fn new(changed: u64, moved_on: u64, not_applicable: u64) -> Self {
        Self { changed, moved_on, not_applicable }
    }

    /// Adds the result of another batch.
    pub(crate) fn add(&mut self, other: Self) {
        self.changed += other.changed;
        self.moved_on += other.moved_on;
        self.not_applicable += other.not_applicable;
    }
}

/// Positions as a short text: `41 43-50`.
#[cfg(any(feature = "_store", test))]
pub(crate) fn targets(mut positions: Vec<i64>) -> String {
    positions.sort_unstable();
    positions.dedup();
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for position in positions {
        match ranges.last_mut() {
            Some((_, end)) if position == *end + 1 => *end = position,
            _ => ranges.push((position, position)),
        }
    }
    let text = |(start, end): &(i64, i64)| {
        if start == end { start.to_string() } else { format!("{start}-{end}") }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_become_ranges() {
        assert_eq!(targets(vec![44, 41, 43, 45, 43]), "41 43-45");
        assert_eq!(targets(Vec::new()), "");
    }

    #[test]
    fn no_action_deletes_an_event_that_it_does_not_name() {
        assert!(!ParkedAction::Discard.applies_to(ParkedState::Retry));
        assert!(!ParkedAction::Skip.applies_to(ParkedState::Dead));
        assert!(!ParkedAction::Retry.applies_to(ParkedState::Expired));
        assert!(!ParkedAction::Kill.applies_to(ParkedState::Behind));
    }
}
