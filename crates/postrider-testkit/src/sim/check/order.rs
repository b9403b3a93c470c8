//! Order: no event is delivered for the first time after a later event with its key, and no owner repeats a delivery.

use std::collections::{BTreeMap, BTreeSet};

use postrider::Position;
use postrider::ledger::Redelivery;
use postrider::relay::Order;
use postrider::relay::brain::Routed;
use postrider::sink::Outcome;

use super::super::observation::{Owner, ReportedOutcome};
use super::super::written::{WrittenEvent, WrittenEvents};
use super::{Check, Observation, Promise, View};

/// Two rules.
///
/// At the destination: when an event becomes visible for the first time, no later event of its key was visible before.
/// At the relay: an owner never publishes an event again after it was acknowledged, and never while another event of
/// its key is unanswered (unless both are in one batch, in order, and the sink is prefix safe). What an operator asked for
/// again is loaded at the start of a term, so it is in order within the term, too.
#[derive(Debug)]
pub(super) struct KeyOrder {
    newest: Vec<BTreeMap<u32, Position>>,
    /// Unanswered and acknowledged events of the owners, since the last restore.
    owners: BTreeMap<Owner, Owned>,
    restored: bool,
    /// The owner that holds the lease.
    current: Vec<Option<Owner>>,
    /// Events with an outcome that left open whether they were written.
    unknown: BTreeSet<(usize, usize)>,
    /// Events that an operator asked for again. Their messages say so, and may arrive after later ones.
    redelivered: BTreeSet<(usize, usize)>,
    /// Parked rows may belong to another history: the order can no longer be checked.
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
            redelivered: BTreeSet::new(),
            void: false,
        }
    }

    fn written(&mut self, view: &View<'_>, owner: Owner, written: usize) -> Result<(), String> {
        let subscription = owner.subscription();
        let WrittenEvent { key: Some(key), position, .. } = *view.written_events.get(written) else {
            return Ok(());
        };
        if view.times_delivered(subscription, written) > 1
            || self.redelivered.contains(&(subscription, written))
        {
            return Ok(());
        }
        // An owner from before the restore does not know about it, and skips events that were dead only in the lost
        // history.
        if self.restored && !self.owners.contains_key(&owner) {
            return Ok(());
        }
        // These deliveries cannot be prevented: events of a lost history, and events that were given up while an
        // ambiguous outcome was open or while a replaced owner still published them. A dead event that an operator
        // retries was given up, too: the next owner marks its message, but the replaced owner's is on its way.
        let lost =
            view.database.log.get(position).is_none_or(|event| WrittenEvents::number(event) != written);
        let row = view.rows(subscription).parked.get(&position);
        let given_up = row
            .is_some_and(|row| row.state.is_final() || row.redelivery == Some(Redelivery::Retry))
            || view.forgotten[subscription].contains(&written);
        let beyond_reach =
            self.unknown.contains(&(subscription, written)) || self.current[subscription] != Some(owner);
        if lost || given_up && beyond_reach {
            return Ok(());
        }
        let newest = self.newest[subscription].entry(key).or_default();
        if *newest > position {
            return Err(format!("{owner} delivered {} after #{newest}", view.written_events.get(written)));
        }
        *newest = position;
        Ok(())
    }

    fn publishing(&mut self, view: &View<'_>, owner: Owner, messages: &[Routed]) -> Result<(), String> {
        let marked = messages.iter().filter(|message| message.redelivery.is_some());
        let marked = marked.map(|message| (owner.subscription(), WrittenEvents::number(&message.event)));
        self.redelivered.extend(marked);
        let prefix_safe = view.plan(owner.subscription()).prefix_safe;
        let Some(owned) = self.owners.get_mut(&owner) else { return Ok(()) };
        let mut batch: BTreeMap<u32, Position> = BTreeMap::new();
        for message in messages {
            let written = view.written_events.of(&message.event);
            let Some(key) = written.key else { continue };
            let unanswered = owned.unanswered.entry(key).or_default();
            let in_order = match batch.insert(key, written.position) {
                Some(before) => prefix_safe && before < written.position,
                None => unanswered.is_empty(),
            };
            let again = owned.acknowledged.get(&key).is_some_and(|last| *last >= written.position);
            unanswered.insert(written.position);
            if again {
                return Err(format!("{owner} publishes {written} again after its acknowledgement"));
            }
            if !in_order {
                return Err(format!("{owner} publishes {written} next to another of its key"));
            }
        }
        Ok(())
    }

    fn answered(&mut self, view: &View<'_>, owner: Owner, answers: &[ReportedOutcome]) {
        let Some(owned) = self.owners.get_mut(&owner) else { return };
        for answer in answers {
            let written = view.written_events.get(answer.written);
            if matches!(answer.outcome, Outcome::Ambiguous(_)) {
                self.unknown.insert((owner.subscription(), answer.written));
            }
            let Some(key) = written.key else { continue };
            owned.unanswered.entry(key).or_default().remove(&written.position);
            if matches!(answer.outcome, Outcome::Acknowledged(_)) {
                let last = owned.acknowledged.entry(key).or_default();
                *last = written.position.max(*last);
            }
        }
    }
}

impl Check for KeyOrder {
    fn promise(&self) -> Promise {
        Promise::Order
    }

    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        let ordered = |subscription: usize| view.plan(subscription).policy.order == Order::Key;
        match *observed {
            Observation::Restored { whole } => {
                self.void |= !whole;
                self.restored = true;
                self.owners.clear();
                self.newest.iter_mut().for_each(BTreeMap::clear);
            }
            Observation::Granted { owner, .. } => {
                self.current[owner.subscription()] = Some(owner);
                self.owners.entry(owner).or_default();
            }
            Observation::Accepted { subscription } => self.newest[subscription].clear(),
            _ if self.void => {}
            Observation::Delivered { owner, written } if ordered(owner.subscription()) => {
                return self.written(view, owner, written);
            }
            Observation::Publishing { owner, messages } if ordered(owner.subscription()) => {
                return self.publishing(view, owner, messages);
            }
            Observation::Answered { owner, answers } => self.answered(view, owner, answers),
            _ => {}
        }
        Ok(())
    }
}
