//! Decides whether the destination is down or the message is bad; waits during outages and sends probes.

use std::time::Duration;

use super::destination::{Diagnosis, Outage, Suspect};
use super::key_queues::HeadState;
use super::keys::{DestinationId, KeyId};
use super::leader::Leader;
use super::outbound::Batch;
use super::park::ParkReason;
use super::random::doubled;
use super::step::StepCx;
use super::{BatchId, Report};
use crate::ledger::ParkedState;
use crate::sink::Failure;

/// Heads kept in memory for probes when the others of the destination are parked as held.
const PROBES_KEPT: usize = 8;

impl Leader {
    /// The destination acknowledged a message of a batch: earlier failures were caused by the messages, and an outage
    /// is over.
    pub(super) fn destination_is_up(&mut self, cx: &mut StepCx<'_>, id: DestinationId, by: BatchId) {
        if self.destinations.is_empty() {
            return;
        }
        let Some(mut destination) = self.destinations.remove(id) else { return };
        let (before, after): (Vec<Suspect>, Vec<Suspect>) = std::mem::take(&mut destination.suspects)
            .into_iter()
            .partition(|suspect| suspect.is_disproved_by(by));
        for Suspect { key, failure, .. } in before {
            self.record_provisional_failure(cx, key, &failure);
        }
        for suspect in after {
            let open = self.destinations.failing(id, &destination.name);
            open.others_in_flight = true;
            open.suspect(suspect, cx.policy().breaker_keys);
        }
        if destination.outage.is_some() {
            cx.report(Report::BreakerClosed { destination: destination.name.clone() });
        }
        for key in destination.blocked {
            if self.queues.head_state(key) == Some(HeadState::Blocked) {
                self.proceed(cx, key);
            }
        }
        for key in destination.held {
            if self.queues.head_state(key) == Some(HeadState::Held) {
                self.schedule_fetch(key);
            }
        }
    }

    /// The destination is down: no attempt is counted, its messages wait, and a probe is scheduled.
    pub(super) fn destination_is_down(&mut self, cx: &mut StepCx<'_>, id: DestinationId, failure: &Failure) {
        let Some(destination) = self.destinations.get_mut(id) else { return };
        let (probes, since) = match &destination.outage {
            None => {
                let error = failure.message.clone();
                cx.report(Report::BreakerOpened { destination: destination.name.clone(), error });
                (0, cx.now.wall)
            }
            Some(outage) if outage.probing => (outage.probes + 1, outage.since),
            Some(_) => return,
        };
        let policy = cx.policy();
        let wait = cx.random.jitter(doubled(policy.probe_min, policy.probe_max, probes));
        let wait = wait.max(failure.retry_after.unwrap_or_default().min(policy.backoff_max));
        destination.outage = Some(Outage {
            since,
            error: failure.message.clone(),
            probe_at: cx.now.elapsed + wait,
            probe_time: cx.now.wall.after(wait),
            probes,
            probing: false,
        });
    }

    /// Diagnoses the suspects of each destination, as far as possible at this time.
    pub(super) fn diagnose(&mut self, cx: &mut StepCx<'_>) {
        if self.destinations.is_empty() {
            return;
        }
        for id in self.destinations.with_suspects() {
            let others = self.is_sending_to(id);
            let Some(destination) = self.destinations.get_mut(id) else { continue };
            let diagnosis = destination.diagnose(cx.policy().breaker_keys, others);
            if diagnosis == Diagnosis::Undecided {
                destination.others_in_flight = true;
                continue;
            }
            let others_in_flight = std::mem::take(&mut destination.others_in_flight);
            let suspects = std::mem::take(&mut destination.suspects);
            if diagnosis == Diagnosis::MessageFailed {
                let is_probe = destination.outage.is_some();
                if let (true, Some(suspect)) = (is_probe, suspects.first()) {
                    let failure = suspect.failure.clone();
                    self.destination_is_down(cx, id, &failure);
                }
                for Suspect { key, failure, .. } in &suspects {
                    if others_in_flight {
                        // Others were in flight when it failed, but their outcomes proved nothing: it is retried alone.
                        self.proceed(cx, *key);
                    } else if is_probe {
                        self.record_failed_attempt(cx, *key, failure);
                    } else {
                        self.record_provisional_failure(cx, *key, failure);
                    }
                }
                continue;
            }
            let Some(Suspect { failure, .. }) = suspects.last() else { continue };
            let failure = failure.clone();
            suspects.iter().for_each(|suspect| self.queues.block(suspect.key));
            destination.blocked.extend(suspects.iter().map(|suspect| suspect.key));
            self.destination_is_down(cx, id, &failure);
        }
    }

    /// Whether a message to this destination is ready, at the sink, about to be retried, or ready after the next flush.
    fn is_sending_to(&self, id: DestinationId) -> bool {
        let heads = self.outbound.keys().chain(self.staged_keys()).chain(self.resting());
        let mut given_up = self.progress.given_up().filter_map(|key| self.queues.get(key));
        heads.into_iter().any(|key| self.destination_of(key) == Some(id))
            || given_up.any(|queue| {
                queue.rest.front().and_then(|e| e.body.as_ref()).is_some_and(|b| b.destination == id)
            })
    }

    fn resting(&self) -> impl Iterator<Item = KeyId> {
        let is_resting = |key: &KeyId| matches!(self.queues.head_state(*key), Some(HeadState::RetrySoon(_)));
        self.fetch_schedule.retrying().filter(is_resting)
    }

    pub(super) fn destination_of(&self, key: KeyId) -> Option<DestinationId> {
        Some(self.queues.get(key)?.head.body.as_ref()?.destination)
    }

    /// Blocks a ready head if its destination is down.
    pub(super) fn block_if_down(&mut self, key: KeyId) -> bool {
        if self.destinations.is_empty() {
            return false;
        }
        let down = self
            .destination_of(key)
            .and_then(|id| self.destinations.get_mut(id))
            .filter(|destination| destination.outage.is_some());
        let Some(destination) = down else { return false };
        destination.blocked.push_back(key);
        self.queues.block(key);
        true
    }

    /// Whether an expired message may be sent to find out whether its destination is up again. If messages do not expire
    /// while a destination is down, there may be no other.
    pub(super) fn probes_expired(&mut self, cx: &StepCx<'_>, key: KeyId) -> bool {
        if cx.policy().expire_while_down {
            return false;
        }
        let destination = self.destination_of(key).and_then(|id| self.destinations.get_mut(id));
        destination.is_some_and(|destination| destination.outage.is_some())
    }

    /// Sends one message to a destination that is down, each time of another key, to find out whether it is up again.
    pub(super) fn probe(&mut self, cx: &mut StepCx<'_>) {
        while self.probe_due(cx).is_some_and(|at| at <= cx.elapsed()) {
            let Some((id, _)) = self.destinations.next_probe() else { return };
            let Some(destination) = self.destinations.get_mut(id) else { return };
            let Some(key) = destination.blocked.pop_front() else {
                self.fetch_held(cx, id);
                continue;
            };
            if self.queues.head_state(key) != Some(HeadState::Blocked)
                || self.give_up_if_undeliverable(cx, key)
            {
                continue;
            }
            let Some(queue) = self.queues.get_mut(key) else { continue };
            queue.head_state = HeadState::InFlight;
            let mut batch = Batch::probe(id);
            batch.push(key, &queue.head);
            if let Some(outage) = self.destinations.get_mut(id).and_then(|d| d.outage.as_mut()) {
                outage.probing = true;
            }
            self.send(cx, batch);
        }
    }

    /// No head is left in memory for probes: fetches a parked one for the next probe.
    fn fetch_held(&mut self, cx: &StepCx<'_>, id: DestinationId) {
        let Some(destination) = self.destinations.get_mut(id) else { return };
        if let Some(outage) = &mut destination.outage {
            outage.probe_after(cx.now, cx.policy().probe_min);
        }
        if let Some(key) = destination.held.pop_front()
            && self.queues.head_state(key) == Some(HeadState::Held)
        {
            self.schedule_fetch(key);
        }
    }

    /// Schedules the next probe if this one proved nothing about the destination because the message itself was
    /// rejected.
    pub(super) fn probe_answered(&mut self, cx: &mut StepCx<'_>, batch: &Batch) {
        // If it was answered early, a later probe may be in progress.
        if batch.has_early_answers() {
            return;
        }
        let Some(destination) = batch.probe.and_then(|id| self.destinations.get_mut(id)) else { return };
        if let Some(outage) = &mut destination.outage
            && outage.probing
            && destination.suspects.is_empty()
        {
            outage.probing = false;
            outage.probe_after(cx.now, cx.policy().probe_min);
        }
    }

    /// When the next probe is due, if one can be sent.
    pub(super) fn probe_due(&self, cx: &StepCx<'_>) -> Option<Duration> {
        let on_trial = self.trial_mode.is_some() && self.outbound.batch_count() > 0;
        if self.destinations.is_empty()
            || self.publish_room(cx) == 0
            || self.is_staged()
            || self.progress.must_settle_first()
            || on_trial
        {
            return None;
        }
        self.destinations.next_probe().map(|(_, at)| at)
    }

    /// With several destinations, parks events of one that is down, to make room for the others.
    pub(super) fn hold_blocked(&mut self, cx: &mut StepCx<'_>) {
        if !self.destinations.are_multiple() || !self.intake.is_half_full(cx.policy()) {
            return;
        }
        for id in self.destinations.ids() {
            while let Some(destination) = self.destinations.get_mut(id)
                && destination.blocked.len() > PROBES_KEPT
                && let Some(key) = destination.blocked.pop_back()
            {
                destination.held.push_front(key);
                let why = format!("{} is down", destination.name);
                self.park_queue(cx, key, HeadState::Held, ParkReason::new(ParkedState::Held, &why));
            }
        }
    }
}
