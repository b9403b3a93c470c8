//! Handles the sink's answer: every message of the batch gets its next state.

use std::sync::Arc;

use super::destination::Suspect;
use super::fetch::remove;
use super::key_queues::HeadState;
use super::keys::{DestinationId, KeyId};
use super::leader::Leader;
use super::step::StepCx;
use super::{BatchId, Effect, Report};
use crate::Position;
use crate::sink::{Failure, Outcome};

impl Leader {
    /// Handles the outcomes of a batch.
    pub(super) fn published(&mut self, cx: &mut StepCx<'_>, id: BatchId, mut outcomes: Vec<Outcome>) {
        let Some(batch) = self.outbound.answered(id) else { return };
        if !batch.has_early_answers() {
            outcomes = fail_first_if_none_tried(outcomes);
        }
        let unanswered = || Outcome::Ambiguous(Failure::new("the sink returned no outcome for this message"));
        let outcomes = outcomes.into_iter().chain(std::iter::repeat_with(unanswered));
        let messages = batch.messages.iter().copied().zip(outcomes).enumerate();
        let unanswered = messages.filter(|(index, _)| !batch.is_answered(*index)).map(|(_, answer)| answer);
        self.record_outcomes(cx, id, unanswered);
        self.proceed_unchanged(cx, batch.unanswered_keys());
        self.probe_answered(cx, &batch);
        self.trial_answered(&batch);
    }

    /// Handles outcomes that are known before the rest of their batch: later events of these keys need not wait for it.
    pub(super) fn published_early(
        &mut self,
        cx: &mut StepCx<'_>,
        id: BatchId,
        outcomes: Vec<(usize, Outcome)>,
    ) {
        // Such a batch may contain later messages of the same key, which must not be sent twice.
        if cx.setup.prefix_safe {
            return;
        }
        // A message that was not tried would be sent again at once. It waits for the last answer of its batch.
        let outcomes = outcomes.into_iter().filter(|(_, outcome)| *outcome != Outcome::Untried).collect();
        let answered = self.outbound.answered_early(id, outcomes);
        let keys: Vec<KeyId> = answered.iter().map(|((key, _), _)| *key).collect();
        self.record_outcomes(cx, id, answered);
        self.proceed_unchanged(cx, keys);
    }

    fn record_outcomes(
        &mut self,
        cx: &mut StepCx<'_>,
        id: BatchId,
        answers: impl IntoIterator<Item = ((KeyId, Position), Outcome)>,
    ) {
        let mut acknowledged_by = Vec::new();
        for ((key, position), outcome) in answers {
            match outcome {
                Outcome::Acknowledged(_) => {
                    if let Some(destination) = self.acknowledged(cx, key, position)
                        && acknowledged_by.last() != Some(&destination)
                    {
                        acknowledged_by.push(destination);
                    }
                }
                other => self.not_acknowledged(cx, id, (key, position), other),
            }
        }
        // An acknowledgement in the same answer proves that the destination was up when its failures happened, unless a
        // failure says otherwise (`after_last_acknowledgement`).
        for destination in acknowledged_by {
            self.destination_is_up(cx, destination, id);
        }
    }

    /// Adds a message to the progress and removes it from its queue. Returns its destination.
    fn acknowledged(&mut self, cx: &mut StepCx<'_>, key: KeyId, position: Position) -> Option<DestinationId> {
        let queue = self.queues.get_mut(key)?;
        let queued = if queue.head.position == position {
            self.queues.pop(key)?.head
        } else {
            // An earlier message of the key failed, so this one should not have become visible.
            cx.report(Report::OrderBroken(position));
            remove(&mut queue.rest, position)?
        };
        self.outbound.count_acknowledged();
        self.progress.acknowledge(position, queued.parked, cx.elapsed());
        self.intake.release(queued.body.as_ref());
        queued.body.map(|body| body.destination)
    }

    fn not_acknowledged(
        &mut self,
        cx: &mut StepCx<'_>,
        batch: BatchId,
        (key, position): (KeyId, Position),
        outcome: Outcome,
    ) {
        if matches!(outcome, Outcome::Ambiguous(_)) {
            cx.report(Report::PossibleDuplicate(position));
        }
        // A message that follows a failed one of its key in the same batch waits behind it.
        let Some(queue) = self.queues.get(key).filter(|queue| queue.head.position == position) else {
            return;
        };
        let Some(body) = &queue.head.body else { return };
        let (destination, name) = (body.destination, body.name.clone());
        match outcome {
            Outcome::Ambiguous(failure) if failure.destination_down => {
                self.wait_for_destination(cx, key, destination, &name, &failure);
            }
            Outcome::Retryable(failure) | Outcome::Ambiguous(failure) => {
                self.queues.set_head_state(key, HeadState::Suspect);
                let breaker_keys = cx.policy().breaker_keys;
                let same_batch = (!failure.after_last_acknowledgement).then_some(batch);
                let suspect = Suspect { key, failure, same_batch, since: self.outbound.next_batch() };
                self.destinations.failing(destination, &name).suspect(suspect, breaker_keys);
            }
            Outcome::Down(failure) => {
                self.wait_for_destination(cx, key, destination, &name, &failure);
                if failure.pause && self.run_state.paused().is_none() {
                    cx.emit(Effect::Pause { epoch: self.lease.epoch, reason: failure.message.clone() });
                    self.run_state.set_paused(cx, Some(failure.message));
                }
            }
            Outcome::Failed(failure) => self.record_failed_attempt(cx, key, &failure),
            Outcome::Rejected(failure) => self.reject(cx, key, &failure.message),
            // `handle_reply` ends the term before this if a message was fenced.
            Outcome::Acknowledged(_) | Outcome::Untried | Outcome::Fenced => {}
        }
    }

    /// Blocks a queue because its destination is down. No attempt is counted.
    fn wait_for_destination(
        &mut self,
        cx: &mut StepCx<'_>,
        key: KeyId,
        destination: DestinationId,
        name: &Arc<str>,
        failure: &Failure,
    ) {
        self.queues.block(key);
        self.destinations.failing(destination, name).blocked.push_back(key);
        self.destination_is_down(cx, destination, failure);
    }

    /// Continues the queues whose head state the outcomes have not changed.
    fn proceed_unchanged(&mut self, cx: &StepCx<'_>, keys: impl IntoIterator<Item = KeyId>) {
        for key in keys {
            if self.queues.head_state(key) == Some(HeadState::InFlight) {
                self.proceed(cx, key);
            }
        }
    }

    /// Continues with the head of a queue: it becomes ready if it is in memory, otherwise it is read back, unless it has to
    /// wait.
    pub(super) fn proceed(&mut self, cx: &StepCx<'_>, key: KeyId) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        if let Some(head_state) = self.later_heads.remove(&queue.head.position) {
            queue.head_state = head_state;
            if let HeadState::Backoff(until) = head_state {
                self.fetch_schedule.retry_at(until, key);
            }
        } else if queue.head.body.is_some() {
            queue.head_state = HeadState::Ready;
            self.outbound.push_ready(key, cx.elapsed());
        } else {
            self.schedule_fetch(key);
        }
    }
}

/// If the sink tried no message, its answer names no failure, and the batch would be sent again immediately and
/// endlessly. Therefore the first message counts as failed.
fn fail_first_if_none_tried(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    if outcomes.iter().all(|outcome| *outcome == Outcome::Untried)
        && let Some(first) = outcomes.first_mut()
    {
        *first = Outcome::Retryable(Failure::new("the sink did not try any message of the batch"));
    }
    outcomes
}
