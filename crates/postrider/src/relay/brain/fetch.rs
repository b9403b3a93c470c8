//! Reads parked events back into memory when they are due.

use std::collections::{HashSet, VecDeque};

use super::io::RoutedFetch;
use super::key_queues::{Body, HeadState, Queued};
use super::leader::Leader;
use super::park::ParkReason;
use super::step::StepCx;
use super::{Disposition, Effect, KeyId, Routed, TermEnd};
use crate::Position;
use crate::ledger::ParkedState;
use crate::store::Budget;

/// Maximum number of parked events of one key per fetch, so that a long queue does not need a query per event.
const PER_KEY_MAX: usize = 32;

impl Leader {
    /// Schedules the fetch of a parked head that is due. If the previous leader had earlier events of its key in
    /// memory, the outbox must be read up to the head first.
    pub(super) fn schedule_fetch(&mut self, key: KeyId) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        if self.intake.has_passed(queue.head.position) {
            queue.head_state = HeadState::ToFetch;
            self.fetch_schedule.fetch_now(key);
        } else {
            queue.head_state = HeadState::AwaitsEarlier;
            self.fetch_schedule.fetch_once_read_to(queue.head.position, key);
        }
    }

    /// Fetches scheduled events, as many as fit into memory.
    pub(super) fn fetch(&mut self, cx: &mut StepCx<'_>) {
        if !self.fetch_schedule.may_fetch() {
            return;
        }
        let policy = cx.policy();
        let Budget { events_max, bytes_max } = self.intake.room_for_parked(policy);
        let events_max = if bytes_max == 0 { 0 } else { events_max.min(policy.claim_events_max) };
        // At least one if nothing else is in progress: the events that fill the memory may wait for it.
        let events_max = events_max.max(usize::from(self.is_idle()));
        while self.fetch_schedule.fetching().len() < events_max
            && let Some(key) = self.fetch_schedule.pop_to_fetch()
        {
            let Some(queue) = self.queues.get_mut(key).filter(|queue| queue.head_state == HeadState::ToFetch)
            else {
                continue;
            };
            queue.head_state = HeadState::Fetching;
            let (intake, later_heads) = (&self.intake, &self.later_heads);
            let behind = queue.rest.iter().take_while(|queued| !later_heads.contains_key(&queued.position));
            let missing = std::iter::once(&queue.head)
                .chain(behind)
                .take_while(|queued| queued.body.is_none() && intake.has_passed(queued.position));
            let most = PER_KEY_MAX.min(events_max - self.fetch_schedule.fetching().len());
            self.fetch_schedule.start_fetch(key, missing.take(most).map(|queued| queued.position));
        }
        if !self.fetch_schedule.fetching().is_empty() {
            let positions = self.fetch_schedule.fetching().iter().map(|(_, position)| *position).collect();
            cx.emit(Effect::Fetch(positions, bytes_max.min(policy.batch_bytes_max)));
        }
    }

    /// Whether nothing is on its way to the sink and no message waits for the end of an outage.
    fn is_idle(&self) -> bool {
        self.outbound.ready_count() == 0
            && self.outbound.in_flight() == 0
            && !self.is_staged()
            && !self.destinations.has_any_waiting()
    }

    /// Handles fetched events. An event that did not fit is fetched again. An event with another key at a requested
    /// position belongs to another history.
    pub(super) fn fetched(&mut self, cx: &mut StepCx<'_>, fetched: RoutedFetch) -> Result<(), TermEnd> {
        let requested = self.fetch_schedule.take_fetching();
        let known: HashSet<(KeyId, Position)> = requested.iter().copied().collect();
        if let Some(other) = fetched.events.iter().find(|e| !known.contains(&(e.key, e.position))) {
            let position = other.position;
            let reason = format!(
                "the event at position {position} has a different key than its parked row: the database was \
                 restored, or all routing rules were removed while events waited with a rule's key"
            );
            cx.emit(Effect::Halt { epoch: self.lease.epoch, reason });
            return Err(TermEnd::HistoryChanged);
        }
        let mut unrouted = Vec::new();
        for Routed { position, key, disposition, event, .. } in fetched.events {
            match disposition {
                Disposition::Deliver { id, name, delivery } => {
                    self.load(key, position, Body { destination: id, name, delivery, event })
                }
                Disposition::Filtered => self.drop_filtered(cx, key, position),
                Disposition::Unrouted(reason) => unrouted.push((key, position, reason)),
            }
        }
        // After loading, so that the events behind such a head leave memory with it.
        for (key, position, reason) in unrouted {
            if self.is_head(key, position) {
                let reason = ParkReason::new(ParkedState::Unrouted, &reason);
                self.park_queue(cx, key, HeadState::NeedsOperator, reason);
            }
        }
        for (key, position) in requested.iter().filter(|(_, position)| fetched.taken.contains(position)) {
            self.drop_filtered(cx, *key, *position);
        }
        let requested_keys = dedup(requested.iter().map(|(key, _)| *key));
        for (key, position) in requested {
            if fetched.gone.contains(&position) && self.is_head(key, position) {
                let why = "its row is no longer in the outbox";
                self.give_up(cx, key, ParkReason::new(ParkedState::Dead, why));
            }
        }
        for key in requested_keys {
            if self.queues.head_state(key) == Some(HeadState::Fetching) {
                self.proceed(cx, key);
            }
        }
        Ok(())
    }

    /// The fetch failed without effect: schedules it again.
    pub(super) fn fetch_failed(&mut self) {
        for key in dedup(self.fetch_schedule.take_fetching().into_iter().map(|(key, _)| key)) {
            self.schedule_fetch(key);
        }
    }

    fn is_head(&self, key: KeyId, position: Position) -> bool {
        self.queues.get(key).is_some_and(|queue| queue.head.position == position)
    }

    fn load(&mut self, key: KeyId, position: Position, body: Body) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let mut entries = std::iter::once(&mut queue.head).chain(&mut queue.rest);
        if let Some(queued) = entries.find(|queued| queued.position == position)
            && queued.body.is_none()
        {
            self.intake.keep(&body);
            queued.body = Some(body);
        }
    }

    /// Finishes a parked event that the subscription no longer wants or that another process has delivered.
    fn drop_filtered(&mut self, cx: &StepCx<'_>, key: KeyId, position: Position) {
        let head = self.is_head(key, position);
        let Some(queue) = self.queues.get_mut(key) else { return };
        if head {
            self.queues.pop(key);
        } else {
            remove(&mut queue.rest, position);
        }
        self.remove_from_trial(position);
        self.progress.unpark(position, cx.elapsed());
    }
}

pub(super) fn remove(entries: &mut VecDeque<Queued>, position: Position) -> Option<Queued> {
    let at = entries.iter().position(|queued| queued.position == position)?;
    entries.remove(at)
}

fn dedup(keys: impl Iterator<Item = KeyId>) -> Vec<KeyId> {
    let mut keys: Vec<KeyId> = keys.collect();
    keys.dedup();
    keys
}
