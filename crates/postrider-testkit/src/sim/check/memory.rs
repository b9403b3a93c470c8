//! Memory: an owner never has more events in memory than its policy allows, whatever the backlog.

use super::{Check, Observation, Promise, View};

/// Checks the state that a brain reports after every step.
#[derive(Debug, Default)]
pub(super) struct MemoryCheck;

impl Check for MemoryCheck {
    fn promise(&self) -> Promise {
        Promise::Memory
    }

    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        let Observation::Stepped { owner, snapshot } = *observed else { return Ok(()) };
        let policy = &view.plan(owner.subscription()).policy;
        // Plus one: if nothing else can proceed, the first parked event is fetched even if memory is full.
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
