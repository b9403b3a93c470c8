//! The window: what an owner has in flight, or acknowledged and not settled, never exceeds W.

use std::collections::{BTreeMap, BTreeSet};

use postrider::Position;
use postrider::sink::Outcome;

use super::super::seen::Owner;
use super::{Check, Promise, Seen, View};

/// What each owner has at risk, measured from outside.
#[derive(Debug, Default)]
pub(super) struct Window {
    exposed: BTreeMap<Owner, BTreeSet<Position>>,
}

impl Check for Window {
    fn promise(&self) -> Promise {
        Promise::Window
    }

    fn observe(&mut self, view: &View<'_>, seen: &Seen<'_>) -> Result<(), String> {
        match *seen {
            Seen::Publishing { owner, messages } => {
                let exposed = self.exposed.entry(owner).or_default();
                exposed.extend(messages.iter().map(|message| message.position));
                let limit = view.plan(owner.seat.subscription).policy.window_events_max;
                if exposed.len() > limit {
                    return Err(format!("{owner} has {} events at risk, W is {limit}", exposed.len()));
                }
            }
            Seen::Answered { owner, answers } => {
                let exposed = self.exposed.entry(owner).or_default();
                for answer in answers {
                    if !matches!(answer.outcome, Outcome::Acknowledged(_)) {
                        exposed.remove(&view.facts.get(answer.fact).position);
                    }
                }
            }
            Seen::Settled { owner, settlement } => {
                if let Some(exposed) = self.exposed.get_mut(&owner) {
                    exposed.retain(|position| !settlement.done.contains(*position));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
