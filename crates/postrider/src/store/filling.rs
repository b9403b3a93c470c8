//! A page being filled up to its budget.

use super::Budget;
use crate::StoredEvent;

/// Takes events in until the budget is used up. The first always fits: a budget never stops the outbox.
pub(super) struct Filling {
    budget: Budget,
    bytes: usize,
    pub(super) events: Vec<StoredEvent>,
}

impl Filling {
    /// Nothing yet, with room made for `room` events.
    pub(super) fn new(budget: Budget, room: usize) -> Self {
        Self { budget, bytes: 0, events: Vec::with_capacity(room) }
    }

    /// Whether an event with a payload of this size is one too many.
    pub(super) fn is_full_for(&self, payload_bytes: usize) -> bool {
        let bytes = self.bytes.saturating_add(payload_bytes);
        !self.events.is_empty()
            && (self.events.len() >= self.budget.events_max || bytes > self.budget.bytes_max)
    }

    /// Takes an event in; `payload_bytes` may be known before the payload itself is here.
    pub(super) fn push(&mut self, event: StoredEvent, payload_bytes: usize) {
        self.bytes = self.bytes.saturating_add(payload_bytes);
        self.events.push(event);
    }
}
