//! Puts events from the outbox into the queues of their keys.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::key_queues::{Body, HeadState, KeyQueue, Queued};
use super::leader::Leader;
use super::park::{ParkReason, park};
use super::step::StepCx;
use super::{Disposition, FailureDetails, KeyId, Report, Routed};
use crate::Event;
use crate::Position;
use crate::ledger::{LastSeen, ParkedState};

impl Leader {
    /// Queues up newly claimed events, in position order.
    pub(super) fn arrive(&mut self, cx: &mut StepCx<'_>, events: Vec<Routed>) {
        if let Some(last) = events.last() {
            self.progress.record_seen(LastSeen { position: last.position, id: last.event.id });
        }
        for Routed { position, key, disposition, event, .. } in events {
            let queued = Queued::new(position);
            match disposition {
                Disposition::Deliver { id, name, delivery } => {
                    self.enqueue(cx, key, queued, Body { destination: id, name, delivery, event })
                }
                Disposition::Filtered => self.progress.finish(position, position, cx.elapsed()),
                Disposition::Unrouted(reason) => self.hold_unrouted(cx, key, queued, &event, &reason),
            }
        }
    }

    /// Parks rows that cannot be read as dead. Their key is unknown, so no other event waits for them.
    pub(super) fn park_damaged(&mut self, cx: &mut StepCx<'_>, damaged: Vec<(Position, String)>) {
        for (position, why) in damaged {
            let queued = Queued::new(position);
            let row = ParkReason::new(ParkedState::Dead, &why).row(&queued, None, None);
            self.progress.park(row, true, cx.elapsed());
            let details = Some(Box::new(FailureDetails { reason: why, ..FailureDetails::default() }));
            cx.report(Report::Parked { position, state: ParkedState::Dead, attempts: 0, details });
        }
    }

    fn enqueue(&mut self, cx: &mut StepCx<'_>, key: KeyId, mut queued: Queued, body: Body) {
        self.destinations.record_seen(body.destination);
        self.intake.keep(&body);
        queued.body = Some(body);
        match self.queues.slot(key) {
            Entry::Vacant(slot) => {
                slot.insert(KeyQueue::new(queued, HeadState::Ready));
                self.outbound.push_ready(key, cx.elapsed());
            }
            Entry::Occupied(mut slot) => {
                let mut queued = match slot.get_mut().precede(queued, HeadState::Ready) {
                    Ok(()) => return self.outbound.push_ready(key, cx.elapsed()),
                    Err(queued) => queued,
                };
                if slot.get().parks_arrivals() {
                    park(&mut self.progress, &mut self.intake, cx, &mut queued, ParkReason::BEHIND);
                }
                slot.get_mut().insert(queued);
            }
        }
    }

    /// Parks an event that no rule matched, or that cannot be encoded yet. It blocks its key until a relay takes over that can
    /// deliver it.
    fn hold_unrouted(
        &mut self,
        cx: &mut StepCx<'_>,
        key: KeyId,
        mut queued: Queued,
        event: &Arc<Event>,
        reason: &str,
    ) {
        let first = self.queues.get(key).is_none_or(|queue| queue.is_preceded_by(queued.position));
        let state = if first { ParkedState::Unrouted } else { ParkedState::Behind };
        let row = ParkReason::new(state, reason).row(&queued, event.ordering_key().as_deref(), None);
        let details = FailureDetails {
            event: Some(event.clone()),
            key: row.key.clone(),
            destination: None,
            reason: reason.to_owned(),
        };
        self.progress.park(row, true, cx.elapsed());
        let details = first.then(|| Box::new(details));
        cx.report(Report::Parked { position: queued.position, state, attempts: 0, details });
        queued.parked = true;
        match self.queues.slot(key) {
            Entry::Vacant(slot) => _ = slot.insert(KeyQueue::new(queued, HeadState::NeedsOperator)),
            Entry::Occupied(mut slot) => {
                if let Err(queued) = slot.get_mut().precede(queued, HeadState::NeedsOperator) {
                    slot.get_mut().insert(queued);
                }
            }
        }
    }

    /// After a claim, schedules heads that waited until the outbox was read up to them.
    pub(super) fn schedule_reached_fetches(&mut self) {
        while let Some(key) = self.fetch_schedule.pop_reached(|position| self.intake.has_passed(position)) {
            if self.queues.head_state(key) == Some(HeadState::AwaitsEarlier) {
                self.schedule_fetch(key);
            }
        }
    }
}
