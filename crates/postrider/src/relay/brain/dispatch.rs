//! Sends ready events to the sink, in batches.

use std::time::Duration;

use super::key_queues::{HeadState, Queued};
use super::leader::Leader;
use super::outbound::OutboundBatch;
use super::pace::Pace;
use super::park::ParkReason;
use super::step::StepCx;
use super::{Effect, KeyId};
use crate::ledger::ParkedState;

/// Maximum number of heads for other destinations that are skipped while a batch is filled. Limits the cost of the
/// search.
const PASSED_OVER_MAX: usize = 1_000;

/// Room that is left in a batch being filled.
struct Room {
    events: usize,
    bytes: usize,
    filled: bool,
}

impl Room {
    fn take(&mut self, queued: &Queued) -> bool {
        let bytes = queued.body.as_ref().map_or(0, |body| body.event.size_bytes());
        // An event larger than the limit of a batch is sent alone.
        if self.events == 0 || (self.filled && bytes > self.bytes) {
            return false;
        }
        self.events -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.filled = true;
        true
    }
}

impl Leader {
    /// Fills and sends batches while there are ready events, room in the window and fewer batches at the sink than
    /// allowed.
    pub(super) fn dispatch(&mut self, cx: &mut StepCx<'_>) {
        while self.may_dispatch(cx) && self.linger_due(cx).is_none_or(|at| at <= cx.elapsed()) {
            let (events_max, bytes_max) = Pace::batch_max(cx.policy());
            let events = self.batch_events_max(cx).min(self.publish_room(cx)).min(events_max);
            let room = Room { events, bytes: batch_bytes_max(cx).min(bytes_max), filled: false };
            let batch = self.fill(cx, room);
            if batch.messages.is_empty() {
                return;
            }
            self.send(cx, batch);
        }
    }

    fn may_dispatch(&self, cx: &StepCx<'_>) -> bool {
        self.outbound.ready_count() > 0
            && !self.progress.must_settle_first()
            && self.outbound.batch_count() < self.batches_max(cx)
            && !self.is_staged()
            && self.publish_room(cx) > 0
    }

    fn batches_max(&self, cx: &StepCx<'_>) -> usize {
        match cx.setup.in_flight_max {
            _ if self.trial_mode.is_some() => 1,
            // The sink limits messages. A batch with one slow message must not keep others from it.
            Some(max) => max,
            None => cx.policy().batches_in_flight_max,
        }
    }

    /// Until when the next batch waits: for more events if it is not full and the sink is not idle, and for the limit of
    /// events and bytes per second.
    pub(super) fn linger_due(&self, cx: &StepCx<'_>) -> Option<Duration> {
        self.may_dispatch(cx).then(|| {
            let full = self.outbound.ready_count() >= self.batch_events_max(cx);
            let handles_each = cx.setup.in_flight_max.is_some();
            let linger = if full || handles_each || self.outbound.batch_count() == 0 {
                Duration::ZERO
            } else {
                cx.policy().batch_linger
            };
            (self.outbound.ready_since() + linger).max(self.pace.free_at())
        })
    }

    fn batch_events_max(&self, cx: &StepCx<'_>) -> usize {
        let trial = self.trial_mode.as_ref().map_or(usize::MAX, |trial_mode| trial_mode.events_max);
        cx.policy().batch_events_max.min(trial)
    }

    /// Fills a batch from the ready queue, without heads that have expired or whose destination is down.
    fn fill(&mut self, cx: &mut StepCx<'_>, mut room: Room) -> OutboundBatch {
        let mut batch = OutboundBatch::with_capacity(room.events.min(self.outbound.ready_count()));
        let mut destination = None;
        let mut passed_over = Vec::new();
        while room.events > 0
            && passed_over.len() < PASSED_OVER_MAX
            && let Some(key) = self.outbound.pop_ready()
        {
            let waits = !cx.policy().expire_while_down && self.block_if_down(key);
            if waits || self.give_up_if_undeliverable(cx, key) || self.block_if_down(key) {
                continue;
            }
            // A batch has one destination: if that does not answer, messages for others must not fail with it.
            if self.destinations.are_multiple() {
                let of_key = self.destination_of(key);
                if *destination.get_or_insert(of_key) != of_key {
                    passed_over.push(key);
                    continue;
                }
            }
            let Some(queue) = self.queues.get_mut(key) else { continue };
            if !room.take(&queue.head) {
                self.outbound.put_back(key);
                break;
            }
            queue.head_state = HeadState::InFlight;
            batch.push(key, &queue.head);
            if !cx.setup.prefix_safe {
                continue;
            }
            let head_destination = queue.head.body.as_ref().map(|body| body.destination);
            for queued in &queue.rest {
                let follows = queued.body.as_ref().is_some_and(|body| {
                    Some(body.destination) == head_destination
                        && body.event.expires_at.is_none_or(|at| at > cx.now.wall)
                });
                if !follows || !room.take(queued) {
                    break;
                }
                batch.push(key, queued);
            }
        }
        passed_over.into_iter().rev().for_each(|key| self.outbound.put_back(key));
        self.outbound.restart_linger(cx.elapsed());
        batch
    }

    /// Gives up the head of a queue if it has expired or crashes the relay. Returns whether the head must not be sent.
    pub(super) fn give_up_if_undeliverable(&mut self, cx: &mut StepCx<'_>, key: KeyId) -> bool {
        let Some(body) = self.queues.get(key).and_then(|queue| queue.head.body.as_ref()) else { return true };
        if body.event.expires_at.is_some_and(|at| at <= cx.now.wall) && !self.probes_expired(cx, key) {
            let why = "expired before it could be delivered";
            self.give_up(cx, key, ParkReason::new(ParkedState::Expired, why));
            return true;
        }
        if let Some(reason) = self.crash_reason(key) {
            self.reject(cx, key, &reason);
            return true;
        }
        false
    }

    /// Sends a batch now, or in trial mode after it is recorded.
    pub(super) fn send(&mut self, cx: &mut StepCx<'_>, batch: OutboundBatch) {
        if self.trial_mode.is_some() {
            self.stage(cx, batch);
        } else {
            self.publish(cx, batch);
        }
    }

    pub(super) fn publish(&mut self, cx: &mut StepCx<'_>, batch: OutboundBatch) {
        let (id, outgoing) = self.outbound.send(batch);
        if cx.policy().is_paced() {
            let bytes = outgoing.iter().map(|routed| routed.event.size_bytes()).sum();
            self.pace.sent(cx.elapsed(), cx.policy(), outgoing.len(), bytes);
        }
        cx.emit(Effect::Publish(id, outgoing));
    }
}

/// Bytes of events in one batch. A sink that answers messages one by one keeps the whole batch in memory until its last
/// answer. All its batches together are kept within the limit of the read-ahead.
fn batch_bytes_max(cx: &StepCx<'_>) -> usize {
    let policy = cx.policy();
    let share = cx.setup.in_flight_max.map_or(usize::MAX, |max| policy.read_ahead_bytes_max / max.max(1));
    policy.batch_bytes_max.min(share)
}
