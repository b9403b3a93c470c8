//! Order: no event is delivered for the first time after a later event with its key, and no owner repeats a delivery.

use std::collections::{BTreeMap, BTreeSet};

use postrider::Position;
use postrider::relay::Order;
use postrider::relay::brain::Routed;
use postrider::sink::Outcome;

use super::super::facts::{Fact, Facts};
use super::super::seen::{Owner, ReportedOutcome};
use super::{Check, Promise, Seen, View};

/// Two rules.
///
/// At the destination: when an event is seen for the first time, no later one of its key was seen before.
/// At the relay: one owner never publishes an event of a key again after it was acknowledged, nor while
/// another of that key is unanswered (unless both are in one batch, in order, and the sink is prefix safe).
/// A replay therefore restarts at a point and goes on in order.
#[derive(Debug)]
pub(super) struct KeyOrder {
    newest: Vec<BTreeMap<u32, Position>>,
    /// Unanswered and acknowledged events of the owners, since the last restore.
    owners: BTreeMap<Owner, Owned>,
    restored: bool,
    /// Who has the lease.
    current: Vec<Option<Owner>>,
    /// Events that had an answer which left open whether they were written.
    unknown: BTreeSet<(usize, usize)>,
    /// Parked rows may belong to another history: nothing can be said of order any more.
    void: bool,
}

#[derive(Debug, Default)]
struct Owned {
    unanswered: BTreeMap<u32, BTreeSet<Position>>,
    acknowledged: BTreeMap<u32, Position>,
}

impl KeyOrder {
    pub(super) fn new(subscriptions: usize) -> Self {
        Self {
            newest: vec![BTreeMap::new(); subscriptions],
            owners: BTreeMap::new(),
            restored: false,
            current: vec![None; subscriptions],
            unknown: BTreeSet::new(),
            void: false,
        }
    }

    fn written(&mut self, view: &View<'_>, owner: Owner, fact: usize) -> Result<(), String> {
        let subscription = owner.seat.subscription;
        let Fact { key: Some(key), position, .. } = *view.facts.get(fact) else { return Ok(()) };
        if view.times_delivered(subscription, fact) > 1 {
            return Ok(());
        }
        // Who leads since before a restore has not heard of it, and knows of deaths that never were.
        if self.restored && !self.owners.contains_key(&owner) {
            return Ok(());
        }
        // An event of a history that was lost; and one given up after an answer that left open whether it
        // was written, or that a replaced owner still had: these cannot be withdrawn.
        let lost = view.database.log.get(position).is_none_or(|event| Facts::number(event) != fact);
        let given_up = view.rows(subscription).parked.get(&position).is_some_and(|row| row.state.is_final());
        let beyond_reach =
            self.unknown.contains(&(subscription, fact)) || self.current[subscription] != Some(owner);
        if lost || given_up && beyond_reach {
            return Ok(());
        }
        let newest = self.newest[subscription].entry(key).or_default();
        if *newest > position {
            return Err(format!("{owner} delivered {} after #{newest}", view.facts.get(fact)));
        }
        *newest = position;
        Ok(())
    }

    fn publishing(&mut self, view: &View<'_>, owner: Owner, messages: &[Routed]) -> Result<(), String> {
        let prefix_safe = view.plan(owner.seat.subscription).prefix_safe;
        let Some(owned) = self.owners.get_mut(&owner) else { return Ok(()) };
        let mut batch: BTreeMap<u32, Position> = BTreeMap::new();
        for message in messages {
            let fact = view.facts.of(&message.event);
            let Some(key) = fact.key else { continue };
            let unanswered = owned.unanswered.entry(key).or_default();
            let in_order = match batch.insert(key, fact.position) {
                Some(before) => prefix_safe && before < fact.position,
                None => unanswered.is_empty(),
            };
            let again = owned.acknowledged.get(&key).is_some_and(|last| *last >= fact.position);
            unanswered.insert(fact.position);
            if again {
                return Err(format!("{owner} publishes {fact} again after its acknowledgement"));
            }
            if !in_order {
                return Err(format!("{owner} publishes {fact} beside another of its key"));
            }
        }
        Ok(())
    }

    fn answered(&mut self, view: &View<'_>, owner: Owner, answers: &[ReportedOutcome]) {
        let Some(owned) = self.owners.get_mut(&owner) else { return };
        for answer in answers {
            let fact = view.facts.get(answer.fact);
            if matches!(answer.outcome, Outcome::Ambiguous(_)) {
                self.unknown.insert((owner.seat.subscription, answer.fact));
            }
            let Some(key) = fact.key else { continue };
            owned.unanswered.entry(key).or_default().remove(&fact.position);
            if matches!(answer.outcome, Outcome::Acknowledged(_)) {
                let last = owned.acknowledged.entry(key).or_default();
                *last = fact.position.max(*last);
            }
        }
    }
}

impl Check for KeyOrder {
    fn promise(&self) -> Promise {
        Promise::Order
    }

    fn observe(&mut self, view: &View<'_>, seen: &Seen<'_>) -> Result<(), String> {
        let ordered = |subscription: usize| view.plan(subscription).policy.order == Order::Key;
        match *seen {
            Seen::Restored { whole } => {
                self.void |= !whole;
                self.restored = true;
                self.owners.clear();
                self.newest.iter_mut().for_each(BTreeMap::clear);
            }
            Seen::Granted { owner, .. } => {
                self.current[owner.seat.subscription] = Some(owner);
                self.owners.entry(owner).or_default();
            }
            Seen::Accepted { subscription } => self.newest[subscription].clear(),
            _ if self.void => {}
            Seen::Written { owner, fact } if ordered(owner.seat.subscription) => {
                return self.written(view, owner, fact);
            }
            Seen::Publishing { owner, messages } if ordered(owner.seat.subscription) => {
                return self.publishing(view, owner, messages);
            }
            Seen::Answered { owner, answers } => self.answered(view, owner, answers),
            _ => {}
        }
        Ok(())
    }
}
