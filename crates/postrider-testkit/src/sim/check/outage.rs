//! An outage burns no attempt: what a parked row counts are the message's own failures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider::relay::brain::{Route, Routed};
use postrider::sink::Outcome;

use super::super::facts::Facts;
use super::super::scenario::Way;
use super::super::seen::{Answer, Owner};
use super::{Check, Promise, Seen, View};

/// Keeps, per event, how many failures may count against it:
///
/// - every failure while its destination was up;
/// - a failure in an outage when the owner had no other key's event for that destination at hand: alone,
///   a message cannot be told from its destination;
/// - failures in an outage on fewer keys than the breaker needs: too few to tell. Once the breaker's
///   number of keys has failed, with no acknowledgement between, they are taken back.
///
/// `Down` never counts.
#[derive(Debug)]
pub(super) struct Outages {
    own: Vec<BTreeMap<usize, u32>>,
    suspected: BTreeMap<(Owner, usize), Suspicion>,
    /// What an owner has at hand, by key: read, not acknowledged and not parked.
    open: BTreeMap<Owner, BTreeMap<Key, BTreeSet<usize>>>,
    /// Failures of this very moment.
    just_failed: Vec<(Duration, Owner, usize)>,
    /// Rows and events are of different histories.
    void: bool,
}

#[derive(Debug, Default)]
struct Suspicion {
    keys: BTreeSet<Key>,
    failures: Vec<usize>,
}

impl Outages {
    pub(super) fn new(subscriptions: usize) -> Self {
        Self {
            own: vec![BTreeMap::new(); subscriptions],
            suspected: BTreeMap::new(),
            open: BTreeMap::new(),
            just_failed: Vec::new(),
            void: false,
        }
    }

    fn known(&mut self, view: &View<'_>, owner: Owner, events: &[Routed]) {
        let open = self.open.entry(owner).or_default();
        for event in events.iter().filter(|event| matches!(event.route, Route::To { .. })) {
            let fact = Facts::number(&event.event);
            open.entry(identity(view, fact)).or_default().insert(fact);
        }
    }

    /// `others`: all answers of the batch. An acknowledgement among them proves the destination up.
    fn answered(&mut self, view: &View<'_>, owner: Owner, answer: &Answer, others: &[Answer]) {
        let subscription = owner.seat.subscription;
        let Way::To(destination) = view.way(subscription, answer.fact) else { return };
        let key = identity(view, answer.fact);
        let open = self.open.entry(owner).or_default();
        match answer.outcome {
            Outcome::Acknowledged(_) => {
                open.entry(key).or_default().remove(&answer.fact);
                self.conclude(view, |of, at| of == owner && at == destination);
            }
            Outcome::Down(_) | Outcome::Untried | Outcome::Fenced => {}
            _ if !answer.outage || acknowledged_by(view, owner, destination, others) => {
                *self.own[subscription].entry(answer.fact).or_default() += 1
            }
            _ if self.is_alone(view, owner, answer.fact) => {
                *self.own[subscription].entry(answer.fact).or_default() += 1;
            }
            _ => {
                let suspicion = self.suspected.entry((owner, destination)).or_default();
                suspicion.keys.insert(key);
                suspicion.failures.push(answer.fact);
                self.just_failed.push((view.now, owner, answer.fact));
            }
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

    fn allowed(&self, view: &View<'_>, owner: Owner, fact: usize) -> u32 {
        let own = self.own[owner.seat.subscription].get(&fact).copied().unwrap_or_default();
        let needed = view.plan(owner.seat.subscription).policy.breaker_keys;
        let unclear = self.suspected.iter().filter(|((of, _), s)| *of == owner && s.keys.len() < needed);
        own + unclear.map(|(_, s)| s.failures.iter().filter(|f| **f == fact).count() as u32).sum::<u32>()
    }

    /// The destination answers, or the owner is another: what was unclear stays unclear for ever.
    fn conclude(&mut self, view: &View<'_>, ended: impl Fn(Owner, usize) -> bool) {
        for ((owner, destination), suspicion) in std::mem::take(&mut self.suspected) {
            let subscription = owner.seat.subscription;
            if !ended(owner, destination) {
                self.suspected.insert((owner, destination), suspicion);
            } else if suspicion.keys.len() < view.plan(subscription).policy.breaker_keys {
                for fact in suspicion.failures {
                    *self.own[subscription].entry(fact).or_default() += 1;
                }
            }
        }
    }
}

fn acknowledged_by(view: &View<'_>, owner: Owner, destination: usize, answers: &[Answer]) -> bool {
    answers.iter().any(|answer| {
        matches!(answer.outcome, Outcome::Acknowledged(_))
            && view.way(owner.seat.subscription, answer.fact) == Way::To(destination)
    })
}

/// A key, or an event without one.
type Key = (Option<u32>, usize);

/// What tells one key from another: events without a key are each their own.
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
                answers.iter().for_each(|answer| self.answered(view, owner, answer, answers));
            }
            Seen::Parked { owner, position } => {
                if let Some(event) = view.database.log.get(position) {
                    self.parked(view, owner, Facts::number(event));
                }
            }
            Seen::OutageEnded { destination } => self.conclude(view, |_, of| of == destination),
            Seen::Granted { owner, .. } => {
                self.conclude(view, |other, _| other.seat.subscription == owner.seat.subscription);
            }
            Seen::Restored { whole } => self.void |= !whole,
            Seen::Settled { owner, settlement } if !self.void => {
                for row in &settlement.park {
                    let Some(event) = view.database.log.get(row.position) else { continue };
                    let fact = Facts::number(event);
                    // An event on trial when its relay died is taken for the killer, and that counts.
                    let condemned = row.last_error.as_ref().is_some_and(|e| e.starts_with("the relay died"));
                    let allowed = self.allowed(view, owner, fact) + u32::from(condemned);
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
