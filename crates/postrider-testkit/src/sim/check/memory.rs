//! Memory: an owner never holds more events than its policy allows, whatever the backlog.

use super::{Check, Promise, Seen, View};

/// Watches what a brain says of itself after every step.
#[derive(Debug, Default)]
pub(super) struct Memory;

impl Check for Memory {
    fn promise(&self) -> Promise {
        Promise::Memory
    }

    fn observe(&mut self, view: &View<'_>, seen: &Seen<'_>) -> Result<(), String> {
        let Seen::Stepped { owner, snapshot } = *seen else { return Ok(()) };
        let policy = &view.plan(owner.seat.subscription).policy;
        // And one: a parked head is fetched when nothing else moves, full or not.
        let limit = policy.read_ahead_events_max + policy.batch_events_max + 1;
        if snapshot.events_in_memory > limit {
            return Err(format!(
                "{owner} holds {} events, at most {limit} may be",
                snapshot.events_in_memory
            ));
        }
        Ok(())
    }
}
