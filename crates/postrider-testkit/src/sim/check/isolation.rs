//! Isolation: if only some keys and destinations fail, all other events are delivered soon.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider::Position;

use super::super::scenario::{Kind, TopicRoute};
use super::super::written::WrittenEvents;
use super::{Check, Observation, Promise, View};

/// The longest time between the commit and the delivery of a healthy event. A poisoned key waits at least 20 s for its
/// next attempt, so a message that waits for it is detected.
const SOON: Duration = Duration::from_secs(8);

/// Checks only histories of the kind `Isolation`. A key is unhealthy in a subscription if one of its events is
/// poisoned, is unrouted, or goes to a destination that was ever down. All other keys are healthy.
#[derive(Debug, Default)]
pub(super) struct IsolationCheck {
    failed_destinations: BTreeSet<usize>,
}

impl IsolationCheck {
    fn late(&self, view: &View<'_>, subscription: usize, written: usize) -> bool {
        let committed = view.written_events.get(written).committed.unwrap_or(view.now);
        view.now.saturating_sub(committed) > SOON && self.healthy(view, subscription, written)
    }

    fn healthy(&self, view: &View<'_>, subscription: usize, written: usize) -> bool {
        let key = view.written_events.get(written).key;
        let single = view.plan(subscription).destinations.len() == 1;
        if single && self.failed_destinations.contains(&view.plan(subscription).destinations[0]) {
            return false;
        }
        let fine = |number: usize| {
            view.written_events.get(number).poison.is_none()
                && matches!(view.topic_route(subscription, number), TopicRoute::To(d) if !self.failed_destinations.contains(&d))
        };
        let of_key = |number: &usize| key.is_some() && view.written_events.get(*number).key == key;
        fine(written) && (0..view.written_events.len()).filter(of_key).all(fine)
    }
}

impl Check for IsolationCheck {
    fn promise(&self) -> Promise {
        Promise::Isolation
    }

    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        if view.scenario.kind != Kind::Isolation {
            return Ok(());
        }
        match *observed {
            Observation::OutageBegan { destination } => {
                self.failed_destinations.insert(destination);
            }
            Observation::Delivered { owner, written }
                if view.times_delivered(owner.subscription(), written) == 1
                    && self.late(view, owner.subscription(), written) =>
            {
                let written = view.written_events.get(written);
                return Err(format!(
                    "{owner} delivered {written} at {:?}, committed {:?}",
                    view.now, written.committed
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, view: &View<'_>) -> Result<(), String> {
        if view.scenario.kind != Kind::Isolation {
            return Ok(());
        }
        for subscription in view.subscriptions() {
            let stuck = |(_, event): &(Position, &postrider::Event)| {
                self.late(view, subscription, WrittenEvents::number(event))
            };
            if let Some((_, event)) = view.missing(subscription).find(stuck) {
                return Err(format!("s{subscription} has not delivered {}", view.written_events.of(event)));
            }
        }
        Ok(())
    }
}
