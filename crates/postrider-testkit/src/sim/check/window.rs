//! The window: the events that an owner has in flight, or acknowledged and not settled, never exceed the limit W.

use std::collections::{BTreeMap, BTreeSet};

use postrider::Position;
use postrider::sink::Outcome;

use super::super::observation::Owner;
use super::{Check, Observation, Promise, View};

/// The events of each owner that may be delivered again, measured from outside.
#[derive(Debug, Default)]
pub(super) struct Window {
    exposed: BTreeMap<Owner, BTreeSet<Position>>,
}

impl Check for Window {
    fn promise(&self) -> Promise {
        Promise::Window
    }

    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        match *observed {
            Observation::Publishing { owner, messages } => {
                let exposed = self.exposed.entry(owner).or_default();
                exposed.extend(messages.iter().map(|message| message.position));
                let limit = view.plan(owner.subscription()).policy.window_events_max;
                if exposed.len() > limit {
                    return Err(format!("{owner} has {} events at risk, W is {limit}", exposed.len()));
                }
            }
            Observation::Answered { owner, answers } => {
                let exposed = self.exposed.entry(owner).or_default();
                for answer in answers {
                    if !matches!(answer.outcome, Outcome::Acknowledged(_)) {
                        exposed.remove(&view.written_events.get(answer.written).position);
                    }
                }
            }
            Observation::Settled { owner, settlement } => {
                if let Some(exposed) = self.exposed.get_mut(&owner) {
                    exposed.retain(|position| !settlement.done.contains(*position));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
