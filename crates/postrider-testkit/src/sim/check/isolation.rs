//! Isolation: in a world where only single keys and destinations are ill, everything else arrives soon.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider::Position;

use super::super::facts::Facts;
use super::super::scenario::{Kind, Way};
use super::{Check, Promise, Seen, View};

/// Longest a healthy event may take from its commit to its destination. A poisoned key waits at least
/// 20 s for its next attempt, so a message that waits for it is detected.
const SOON: Duration = Duration::from_secs(8);

/// Watches the `Isolation` kind of history only. A key is ill in a subscription once one of its events is
/// poisoned, unrouted, or goes to a destination that was ever down; all others are healthy.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    ill_destinations: BTreeSet<usize>,
}

impl Isolation {
    fn late(&self, view: &View<'_>, subscription: usize, fact: usize) -> bool {
        let committed = view.facts.get(fact).committed.unwrap_or(view.now);
        view.now.saturating_sub(committed) > SOON && self.healthy(view, subscription, fact)
    }

    fn healthy(&self, view: &View<'_>, subscription: usize, fact: usize) -> bool {
        let key = view.facts.get(fact).key;
        let single = view.plan(subscription).destinations.len() == 1;
        if single && self.ill_destinations.contains(&view.plan(subscription).destinations[0]) {
            return false;
        }
        let fine = |number: usize| {
            view.facts.get(number).poison.is_none()
                && matches!(view.way(subscription, number), Way::To(d) if !self.ill_destinations.contains(&d))
        };
        let of_key = |number: &usize| key.is_some() && view.facts.get(*number).key == key;
        fine(fact) && (0..view.facts.len()).filter(of_key).all(fine)
    }
}

impl Check for Isolation {
    fn promise(&self) -> Promise {
        Promise::Isolation
    }

    fn observe(&mut self, view: &View<'_>, seen: &Seen<'_>) -> Result<(), String> {
        if view.scenario.kind != Kind::Isolation {
            return Ok(());
        }
        match *seen {
            Seen::OutageBegan { destination } => {
                self.ill_destinations.insert(destination);
            }
            Seen::Written { owner, fact }
                if view.times_delivered(owner.seat.subscription, fact) == 1
                    && self.late(view, owner.seat.subscription, fact) =>
            {
                let fact = view.facts.get(fact);
                return Err(format!(
                    "{owner} delivered {fact} at {:?}, committed {:?}",
                    view.now, fact.committed
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
                self.late(view, subscription, Facts::number(event))
            };
            if let Some((_, event)) = view.missing(subscription).find(stuck) {
                return Err(format!("s{subscription} has not delivered {}", view.facts.of(event)));
            }
        }
        Ok(())
    }
}
