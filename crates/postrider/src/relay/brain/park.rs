//! Parking: an event that fails leaves memory, and the later events of its key wait behind it. A parked row is in the
//! database after the next settle, and survives the relay.

use std::borrow::Cow;

use super::intake::Intake;
use super::key_queues::{Body, HeadState, Queued};
use super::leader::Leader;
use super::progress::ProgressBuffer;
use super::random::doubled;
use super::step::StepCx;
use super::{FailureDetails, KeyId, Report};
use crate::Timestamp;
use crate::ledger::{ParkedRow, ParkedState};
use crate::relay::OnDead;
use crate::sink::Failure;

/// Maximum length of the error text in a row.
const ERROR_BYTES_MAX: usize = 1_000;

/// Why an event is parked, and until when.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParkReason<'a> {
    pub(super) state: ParkedState,
    pub(super) next_attempt_at: Option<Timestamp>,
    pub(super) error: Option<&'a str>,
}

impl<'a> ParkReason<'a> {
    pub(super) const BEHIND: Self = Self { state: ParkedState::Behind, next_attempt_at: None, error: None };

    pub(super) fn new(state: ParkedState, error: &'a str) -> Self {
        Self { state, next_attempt_at: None, error: Some(error) }
    }

    /// The parked row of an event, for this reason.
    pub(super) fn row(&self, queued: &Queued, key: Option<&str>, destination: Option<&str>) -> ParkedRow {
        ParkedRow {
            position: queued.position,
            key: key.map(str::to_owned),
            destination: destination.map(str::to_owned),
            state: self.state,
            attempts: queued.attempts,
            next_attempt_at: self.next_attempt_at,
            last_error: self.error.map(shortened),
            redelivery: queued.redelivery,
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars()
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= ERROR_BYTES_MAX).then_some(c)
        })
        .collect()
}

impl Leader {
    /// Handles a failure while the destination is considered up. A single failure may be a broken connection or the
    /// start of an outage, so the head is retried soon; only a second consecutive failure counts, as one attempt.
    pub(super) fn record_provisional_failure(&mut self, cx: &mut StepCx<'_>, key: KeyId, failure: &Failure) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let policy = cx.policy();
        let retry_after = failure.retry_after.unwrap_or_default();
        // A destination that asks for a long wait is up, so the failure counts; and the queue must not stay in memory
        // for that long.
        if queue.head.failed_provisionally || retry_after > policy.probe_max {
            self.record_failed_attempt(cx, key, failure);
            return;
        }
        let until = cx.elapsed() + cx.random.jitter(policy.probe_min).max(retry_after);
        queue.head.report_first_failure(cx, failure);
        queue.head.failed_provisionally = true;
        queue.head_state = HeadState::RetrySoon(until);
        self.fetch_schedule.retry_at(until, key);
    }

    /// Counts a failed attempt of the head of a queue: it is retried later, or given up if it was the last attempt.
    pub(super) fn record_failed_attempt(&mut self, cx: &mut StepCx<'_>, key: KeyId, failure: &Failure) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let own_limit = queue.head.body.as_ref().and_then(|body| body.event.max_attempts);
        let policy = cx.policy();
        if own_limit.unwrap_or(policy.max_attempts) > 1 {
            queue.head.report_first_failure(cx, failure);
        }
        queue.head.attempts += 1;
        queue.head.failed_provisionally = false;
        let attempts = queue.head.attempts;
        if attempts >= own_limit.unwrap_or(policy.max_attempts) {
            self.give_up(cx, key, ParkReason::new(ParkedState::Dead, &failure.message));
            return;
        }
        let backoff = doubled(policy.backoff_min, policy.backoff_max, attempts - 1);
        let backoff = if policy.backoff_jitter { cx.random.jitter(backoff) } else { backoff };
        let wait = backoff.max(failure.retry_after.unwrap_or_default().min(policy.backoff_max));
        let next_attempt_at = cx.now.wall.after(wait);
        if queue
            .head
            .body
            .as_ref()
            .and_then(|body| body.event.expires_at)
            .is_some_and(|at| at <= next_attempt_at)
        {
            self.give_up(cx, key, ParkReason::new(ParkedState::Expired, &failure.message));
            return;
        }
        let until = cx.elapsed() + wait;
        let reason = ParkReason {
            next_attempt_at: Some(next_attempt_at),
            ..ParkReason::new(ParkedState::Retry, &failure.message)
        };
        self.park_queue(cx, key, HeadState::Backoff(until), reason);
        self.fetch_schedule.retry_at(until, key);
    }

    /// Gives up the head of a queue because the message can never be delivered.
    pub(super) fn reject(&mut self, cx: &mut StepCx<'_>, key: KeyId, why: &str) {
        if let Some(queue) = self.queues.get_mut(key) {
            queue.head.attempts += 1;
        }
        self.give_up(cx, key, ParkReason::new(ParkedState::Dead, why));
    }

    /// Gives up the head of a queue. Once that is settled, the later events of its key continue, unless the policy
    /// lets a dead event block them.
    pub(super) fn give_up(&mut self, cx: &mut StepCx<'_>, key: KeyId, reason: ParkReason<'_>) {
        if reason.state == ParkedState::Dead && cx.policy().on_dead == OnDead::Block {
            self.park_queue(cx, key, HeadState::NeedsOperator, reason);
            return;
        }
        let Some(queue) = self.queues.get_mut(key) else { return };
        queue.head_state = HeadState::GivenUp;
        let position = queue.head.position;
        park(&mut self.progress, &mut self.intake, cx, &mut queue.head, reason);
        self.progress.record_given_up(key);
        self.remove_from_trial(position);
    }

    /// Removes heads whose give-up is settled, and continues their queues.
    pub(super) fn remove_given_up(&mut self, cx: &StepCx<'_>, given_up: Vec<KeyId>) {
        for key in given_up {
            if self.queues.head_state(key) == Some(HeadState::GivenUp)
                && let Some(popped) = self.queues.pop(key)
                && popped.more
            {
                self.proceed(cx, key);
            }
        }
    }

    /// Parks a whole queue: its head with the given reason, the others behind it. No event of it stays in memory.
    pub(super) fn park_queue(
        &mut self,
        cx: &mut StepCx<'_>,
        key: KeyId,
        head_state: HeadState,
        reason: ParkReason<'_>,
    ) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        queue.head_state = head_state;
        let head = queue.head.position;
        park(&mut self.progress, &mut self.intake, cx, &mut queue.head, reason);
        for queued in &mut queue.rest {
            if queued.parked {
                self.intake.release(queued.body.take().as_ref());
            } else {
                park(&mut self.progress, &mut self.intake, cx, queued, ParkReason::BEHIND);
            }
        }
        if head_state == HeadState::NeedsOperator {
            self.remove_from_trial(head);
        }
    }
}

impl Queued {
    /// Reports a first failure at once: whether the event is retried or parked may be decided much later.
    fn report_first_failure(&self, cx: &mut StepCx<'_>, failure: &Failure) {
        if self.attempts == 0 && !self.failed_provisionally {
            let details = Box::new(details(self.body.as_ref(), &failure.message));
            cx.report(Report::Failing { position: self.position, details });
        }
    }
}

fn details(body: Option<&Body>, reason: &str) -> FailureDetails {
    FailureDetails {
        event: body.map(|body| body.event.clone()),
        key: body.and_then(Body::key).map(Cow::into_owned),
        destination: body.map(|body| body.name.clone()),
        reason: shortened(reason),
    }
}

/// Records the parked row of an event for the next settle, and drops the event from memory.
pub(super) fn park(
    progress: &mut ProgressBuffer,
    intake: &mut Intake,
    cx: &mut StepCx<'_>,
    queued: &mut Queued,
    reason: ParkReason<'_>,
) {
    let body = queued.body.take();
    intake.release(body.as_ref());
    let key = body.as_ref().and_then(Body::key);
    let row = reason.row(queued, key.as_deref(), body.as_ref().map(|b| &*b.name));
    // Events that are retried automatically are only counted; details are for those that need an operator.
    let details = match reason.state {
        ParkedState::Dead | ParkedState::Expired | ParkedState::Unrouted => {
            Some(Box::new(details(body.as_ref(), reason.error.unwrap_or_default())))
        }
        ParkedState::Retry | ParkedState::Held | ParkedState::Behind => None,
    };
    let Queued { position, attempts, .. } = *queued;
    cx.report(Report::Parked { position, state: reason.state, attempts, details });
    let counts = reason.state != ParkedState::Expired || cx.setup.counts_expired;
    if !counts && queued.parked {
        progress.uncount_parked();
    }
    progress.park(row, counts && !queued.parked, cx.elapsed());
    queued.parked = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_text_is_cut_between_characters() {
        let text = "é".repeat(ERROR_BYTES_MAX);
        assert_eq!(shortened(&text).len(), ERROR_BYTES_MAX);
        assert_eq!(shortened("short"), "short");
    }
}
