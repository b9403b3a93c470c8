//! Outage: a failure during an outage does not count as an attempt. A parked row counts only failures of its message.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider::ledger::ParkedState;
use postrider::relay::OnDead;
use postrider::relay::brain::{CRASHED_REASON, Disposition, Routed};
use postrider::sink::Outcome;

use super::super::observation::{Owner, ReportedOutcome};
use super::super::scenario::TopicRoute;
use super::super::written::WrittenEvents;
use super::{Check, Observation, Promise, View};

/// Counts, per event, how many failures may count as attempts:
///
/// - every failure while its destination was up;
/// - a failure during an outage if the owner had no event of another key for that destination: a single message cannot
///   be distinguished from its destination;
/// - the second failure of a message in outages that each end before another message fails: a limit of the promise.
///
/// `Down` never counts.
#[derive(Debug)]
pub(super) struct Outages {
    own: Vec<BTreeMap<usize, u32>>,
    /// The events that an owner has in memory, by key: read, not acknowledged and not parked.
    open: BTreeMap<Owner, BTreeMap<Key, BTreeSet<usize>>>,
    /// Events that failed in an outage, by subscription.
    brief: Vec<BTreeMap<usize, Brief>>,
    /// Failures at the current moment.
    just_failed: Vec<(Duration, Owner, usize)>,
    /// When an event was last handed to the sink, by subscription.
    sent: Vec<BTreeMap<usize, Duration>>,
    /// The rows and the events belong to different histories.
    void: bool,
}

impl Outages {
    pub(super) fn new(subscriptions: usize) -> Self {
        Self {
            own: vec![BTreeMap::new(); subscriptions],
            open: BTreeMap::new(),
            brief: vec![BTreeMap::new(); subscriptions],
            just_failed: Vec::new(),
            sent: vec![BTreeMap::new(); subscriptions],
            void: false,
        }
    }

    fn known(&mut self, view: &View<'_>, owner: Owner, events: &[Routed]) {
        let open = self.open.entry(owner).or_default();
        for event in events.iter().filter(|event| matches!(event.disposition, Disposition::Deliver { .. })) {
            let written = WrittenEvents::number(&event.event);
            open.entry(identity(view, written)).or_default().insert(written);
        }
    }

    fn answered(&mut self, view: &View<'_>, owner: Owner, answer: &ReportedOutcome) {
        let subscription = owner.subscription();
        let TopicRoute::To(_) = view.topic_route(subscription, answer.written) else { return };
        match answer.outcome {
            Outcome::Acknowledged(_) => {
                self.close(view, owner, answer.written);
                let route = view.topic_route(subscription, answer.written);
                let sent = self.sent[subscription].get(&answer.written).copied().unwrap_or_default();
                for (failed, brief) in &mut self.brief[subscription] {
                    if view.topic_route(subscription, *failed) == route && brief.ends(sent, view.now) {
                        *self.own[subscription].entry(*failed).or_default() += 1;
                    }
                }
            }
            Outcome::Down(_) | Outcome::Untried | Outcome::Fenced => {}
            _ if !answer.outage || self.is_alone(view, owner, answer.written) => {
                *self.own[subscription].entry(answer.written).or_default() += 1;
            }
            _ => {
                self.brief[subscription].entry(answer.written).or_default().failed_at = Some(view.now);
                self.just_failed.push((view.now, owner, answer.written));
            }
        }
    }

    /// Whether the owner has no event of another key for the same destination. Only the first event of a key counts,
    /// because only it can be sent, and only if it has not expired.
    fn is_alone(&self, view: &View<'_>, owner: Owner, written: usize) -> bool {
        let route = |written: usize| view.topic_route(owner.subscription(), written);
        let company = |written_events: &BTreeSet<usize>| {
            written_events.first().is_some_and(|other| {
                !view.written_events.get(*other).expires && route(*other) == route(written)
            })
        };
        let key = identity(view, written);
        self.open.get(&owner).is_none_or(|open| {
            open.iter().all(|(other, written_events)| *other == key || !company(written_events))
        })
    }

    /// An event is parked. If it blocks its key, the other events of the key leave memory, too; if it is given up, they
    /// are sent next. A message that failed at the same moment may now be the only one for its destination.
    fn parked(&mut self, view: &View<'_>, owner: Owner, written: usize, state: ParkedState) {
        let blocks_its_key = match state {
            ParkedState::Retry | ParkedState::Held | ParkedState::Unrouted => true,
            ParkedState::Dead => view.plan(owner.subscription()).policy.on_dead == OnDead::Block,
            _ => false,
        };
        if blocks_its_key {
            self.open.entry(owner).or_default().remove(&identity(view, written));
        } else {
            self.close(view, owner, written);
        }
        self.just_failed.retain(|(at, _, _)| *at == view.now);
        for (_, of, failed) in std::mem::take(&mut self.just_failed) {
            if of == owner && self.is_alone(view, owner, failed) {
                *self.own[owner.subscription()].entry(failed).or_default() += 1;
            } else {
                self.just_failed.push((view.now, of, failed));
            }
        }
    }

    fn close(&mut self, view: &View<'_>, owner: Owner, written: usize) {
        let open = self.open.entry(owner).or_default();
        open.entry(identity(view, written)).or_default().remove(&written);
    }

    fn allowed(&self, owner: Owner, written: usize) -> u32 {
        self.own[owner.subscription()].get(&written).copied().unwrap_or_default()
    }
}

/// The failures of an event in outages after which its destination acknowledged another event.
#[derive(Debug, Default, Clone)]
struct Brief {
    /// When it failed, if no acknowledgement has proved since that the outage is over.
    failed_at: Option<Duration>,
    ended: u32,
}

impl Brief {
    /// The destination acknowledged an event that was sent at this moment. That proves the end of the outage only if it
    /// was sent after the failure, or answered together with it. Returns whether that was the second such failure.
    fn ends(&mut self, sent: Duration, now: Duration) -> bool {
        if self.failed_at.take_if(|failed_at| *failed_at < sent || *failed_at == now).is_none() {
            return false;
        }
        self.ended += 1;
        let is_second = self.ended == 2;
        self.ended %= 2;
        is_second
    }
}

/// A key, or an event without one.
type Key = (Option<u32>, usize);

/// Identifies a key. Every event without a key is a separate key.
fn identity(view: &View<'_>, written: usize) -> Key {
    match view.written_events.get(written).key {
        Some(key) => (Some(key), 0),
        None => (None, written),
    }
}

impl Check for Outages {
    fn promise(&self) -> Promise {
        Promise::Outage
    }

    fn observe(&mut self, view: &View<'_>, observed: &Observation<'_>) -> Result<(), String> {
        match *observed {
            Observation::Known { owner, events } => self.known(view, owner, events),
            Observation::Answered { owner, answers } => {
                answers.iter().for_each(|answer| self.answered(view, owner, answer));
            }
            Observation::Publishing { owner, messages } => {
                let sent = &mut self.sent[owner.subscription()];
                sent.extend(messages.iter().map(|message| (WrittenEvents::number(&message.event), view.now)));
            }
            Observation::Parked { owner, position, state } => {
                if let Some(event) = view.database.log.get(position) {
                    self.parked(view, owner, WrittenEvents::number(event), state);
                }
            }
            Observation::Restored { whole } => self.void |= !whole,
            Observation::Settled { owner, settlement } if !self.void => {
                for row in &settlement.park {
                    let Some(event) = view.database.log.get(row.position) else { continue };
                    let written = WrittenEvents::number(event);
                    // If a relay dies during a trial, the event on trial is considered the cause, and that counts as an
                    // attempt.
                    let crashed = row.last_error.as_ref().is_some_and(|e| e.starts_with(CRASHED_REASON));
                    let allowed = self.allowed(owner, written) + u32::from(crashed);
                    if row.attempts > allowed {
                        let written = view.written_events.get(written);
                        return Err(format!(
                            "{owner} counts {} attempts of {written}, {allowed} were its own",
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
