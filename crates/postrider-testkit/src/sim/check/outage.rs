//! An outage burns no attempt: what a parked row counts are the message's own failures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider::relay::brain::{CRASHED_REASON, Disposition, Routed};
use postrider::sink::Outcome;

use super::super::facts::Facts;
use super::super::scenario::Way;
use super::super::seen::{Owner, ReportedOutcome};
use super::{Check, Promise, Seen, View};

/// Keeps, per event, how many failures may count against it:
///
/// - every failure while its destination was up;
/// - a failure in an outage when the owner had no other key's event for that destination at hand: alone,
///   a message cannot be distinguished from its destination.
///
/// `Down` never counts.
#[derive(Debug)]
pub(super) struct Outages {
    own: Vec<BTreeMap<usize, u32>>,
    /// What an owner has at hand, by key: read, not acknowledged and not parked.
    open: BTreeMap<Owner, BTreeMap<Key, BTreeSet<usize>>>,
    /// Failures of this very moment.
    just_failed: Vec<(Duration, Owner, usize)>,
    /// Rows and events are of different histories.
    void: bool,
}

impl Outages {
    pub(super) fn new(subscriptions: usize) -> Self {
        Self {
            own: vec![BTreeMap::new(); subscriptions],
            open: BTreeMap::new(),
            just_failed: Vec::new(),
            void: false,
        }
    }

    fn known(&mut self, view: &View<'_>, owner: Owner, events: &[Routed]) {
        let open = self.open.entry(owner).or_default();
        for event in events.iter().filter(|event| matches!(event.disposition, Disposition::Deliver { .. })) {
            let fact = Facts::number(&event.event);
            open.entry(identity(view, fact)).or_default().insert(fact);
        }
    }

    fn answered(&mut self, view: &View<'_>, owner: Owner, answer: &ReportedOutcome) {
        let subscription = owner.seat.subscription;
        let Way::To(_) = view.way(subscription, answer.fact) else { return };
        match answer.outcome {
            Outcome::Acknowledged(_) => {
                self.close(view, owner, answer.fact);
            }
            Outcome::Down(_) | Outcome::Untried | Outcome::Fenced => {}
            _ if !answer.outage || self.is_alone(view, owner, answer.fact) => {
                *self.own[subscription].entry(answer.fact).or_default() += 1;
            }
            _ => self.just_failed.push((view.now, owner, answer.fact)),
        }
    }

    /// Whether the owner has no other key's event at hand for the same destination. Only the first of a
    /// key can be sent, and so be company, if its time is not over.
    fn is_alone(&self, view: &View<'_>, owner: Owner, fact: usize) -> bool {
        let way = |fact: usize| view.way(owner.seat.subscription, fact);
        let company = |facts: &BTreeSet<usize>| {
            facts.first().is_some_and(|other| !view.facts.get(*other).expires && way(*other) == way(fact))
        };
        let key = identity(view, fact);
        self.open
            .get(&owner)
            .is_none_or(|open| open.iter().all(|(other, facts)| *other == key || !company(facts)))
    }

    /// An event is put aside, and the rest of its key with it. What failed in the same moment may have lost
    /// its company by that.
    fn parked(&mut self, view: &View<'_>, owner: Owner, fact: usize) {
        self.open.entry(owner).or_default().remove(&identity(view, fact));
        self.just_failed.retain(|(at, _, _)| *at == view.now);
        for (_, of, failed) in std::mem::take(&mut self.just_failed) {
            if of == owner && self.is_alone(view, owner, failed) {
                *self.own[owner.seat.subscription].entry(failed).or_default() += 1;
            } else {
                self.just_failed.push((view.now, of, failed));
            }
        }
    }

    fn close(&mut self, view: &View<'_>, owner: Owner, fact: usize) {
        let open = self.open.entry(owner).or_default();
        open.entry(identity(view, fact)).or_default().remove(&fact);
    }

    fn allowed(&self, owner: Owner, fact: usize) -> u32 {
        self.own[owner.seat.subscription].get(&fact).copied().unwrap_or_default()
    }
}

/// A key, or an event without one.
type Key = (Option<u32>, usize);

/// What identifies a key: each event without a key is its own.
fn identity(view: &View<'_>, fact: usize) -> Key {
    match view.facts.get(fact).key {
        Some(key) => (Some(key), 0),
        None => (None, fact),
    }
}

impl Check for Outages {
    fn promise(&self) -> Promise {
        Promise::Outage
    }

    fn observe(&mut self, view: &View<'_>, seen: &Seen<'_>) -> Result<(), String> {
        match *seen {
            Seen::Known { owner, events } => self.known(view, owner, events),
            Seen::Answered { owner, answers } => {
                answers.iter().for_each(|answer| self.answered(view, owner, answer));
            }
            Seen::Parked { owner, position } => {
                if let Some(event) = view.database.log.get(position) {
                    self.parked(view, owner, Facts::number(event));
                }
            }
            Seen::Restored { whole } => self.void |= !whole,
            Seen::Settled { owner, settlement } if !self.void => {
                for row in &settlement.park {
                    let Some(event) = view.database.log.get(row.position) else { continue };
                    let fact = Facts::number(event);
                    // An event on trial when its relay died is taken for the killer, and that counts.
                    let crashed = row.last_error.as_ref().is_some_and(|e| e.starts_with(CRASHED_REASON));
                    let allowed = self.allowed(owner, fact) + u32::from(crashed);
                    if row.attempts > allowed {
                        let fact = view.facts.get(fact);
                        return Err(format!(
                            "{owner} counts {} attempts of {fact}, {allowed} were its own",
                            row.attempts
                        ));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
