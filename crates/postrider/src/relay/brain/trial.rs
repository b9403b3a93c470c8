//! Trial mode, after a relay crashed: small batches, each recorded before it is published, until the events that were
//! in flight at the crash are done. This finds an event that crashes the process, and parks it as dead.

use std::collections::BTreeSet;

use super::leader::Leader;
use super::outbound::OutboundBatch;
use super::step::StepCx;
use super::{KeyId, ParkedEvent};
use crate::Position;
use crate::ledger::Trial;
use crate::relay::Policy;
use crate::store::Loaded;

/// The start of the reason with which an event that crashes the process is parked as dead.
pub const CRASHED_REASON: &str = "the relay crashed";

/// Factor by which a batch shrinks after a relay crashed with it: finds one event in thousands with few crashes.
const SHRINK: usize = 8;

/// The mode after a relay crashed.
#[derive(Debug)]
pub(super) struct TrialMode {
    /// Maximum number of events in the next batch.
    pub(super) events_max: usize,
    /// Events of the batch with which the relay crashed that have had no outcome since.
    on_trial: BTreeSet<Position>,
    /// Number of relays that crashed while only the single event on trial was in flight.
    deaths: u32,
    /// An event that has crashed relays often enough to be given up.
    crashes_relays: Option<Position>,
    /// Number of events that are still published in this mode: at first as many as could have been in flight.
    remaining: usize,
    /// A batch that is being recorded before it is published.
    staged: Option<OutboundBatch>,
    /// The flush that records it is in progress.
    writing: bool,
}

impl TrialMode {
    /// Starts the mode from the state that the previous leader stored.
    pub(super) fn after_crash(loaded: &Loaded, parked: &[ParkedEvent], policy: &Policy) -> Self {
        let progress = &loaded.progress;
        let parked: BTreeSet<Position> = parked.iter().map(|event| event.row.position).collect();
        let unanswered =
            |position: &Position| !progress.done.contains(*position) || parked.contains(position);
        let mut trial_mode = Self {
            events_max: policy.trial_events,
            on_trial: BTreeSet::new(),
            deaths: 0,
            crashes_relays: None,
            remaining: policy.window_events_max,
            staged: None,
            writing: false,
        };
        if let Some(trial) = progress.trial.as_ref().filter(|trial| trial.positions.iter().any(unanswered)) {
            trial_mode.events_max = (trial.positions.len() / SHRINK).max(1);
            trial_mode.on_trial = trial.positions.iter().copied().filter(unanswered).collect();
            if let [position] = trial.positions[..] {
                trial_mode.deaths = trial.deaths + 1;
                trial_mode.crashes_relays =
                    (trial_mode.deaths >= policy.trial_deaths_max).then_some(position);
            }
        }
        trial_mode
    }

    /// The record of a batch. If it is the same single event as before, its crashes continue to count.
    fn trial_of(&self, batch: &OutboundBatch) -> Trial {
        let positions: Vec<Position> = batch.messages.iter().map(|(_, position)| *position).collect();
        let again = positions.len() == 1 && self.on_trial.iter().eq(&positions);
        Trial { positions, deaths: if again { self.deaths } else { 0 } }
    }
}

impl Leader {
    /// Why the head of a queue must not be tried again; `None` if it may.
    pub(super) fn crash_reason(&self, key: KeyId) -> Option<String> {
        let trial_mode = self.trial_mode.as_ref()?;
        let position = self.queues.get(key)?.head.position;
        (trial_mode.crashes_relays == Some(position))
            .then(|| format!("{CRASHED_REASON} {} times while publishing this event", trial_mode.deaths))
    }

    pub(super) fn is_staged(&self) -> bool {
        self.trial_mode.as_ref().is_some_and(|trial_mode| trial_mode.staged.is_some())
    }

    /// Keys of the batch that is being recorded.
    pub(super) fn staged_keys(&self) -> impl Iterator<Item = KeyId> {
        let staged = self.trial_mode.as_ref().and_then(|trial_mode| trial_mode.staged.as_ref());
        staged.into_iter().flat_map(|batch| &batch.messages).map(|(key, _)| *key)
    }

    /// Records a batch; it is published when the record is settled.
    pub(super) fn stage(&mut self, cx: &StepCx<'_>, batch: OutboundBatch) {
        let Some(trial_mode) = &mut self.trial_mode else { return };
        self.progress.set_trial(Some(trial_mode.trial_of(&batch)), cx.elapsed());
        trial_mode.staged = Some(batch);
    }

    /// A flush has started; it records a staged batch.
    pub(super) fn staged_flush_started(&mut self) {
        if let Some(trial_mode) = &mut self.trial_mode {
            trial_mode.writing = trial_mode.staged.is_some();
        }
    }

    /// The flush failed.
    pub(super) fn staged_flush_failed(&mut self) {
        if let Some(trial_mode) = &mut self.trial_mode {
            trial_mode.writing = false;
        }
    }

    /// The flush is settled: the batch that it recorded may be published.
    pub(super) fn publish_staged(&mut self, cx: &mut StepCx<'_>) {
        let Some(trial_mode) = self.trial_mode.as_mut().filter(|trial_mode| trial_mode.writing) else {
            return;
        };
        trial_mode.writing = false;
        if let Some(batch) = trial_mode.staged.take() {
            self.publish(cx, batch);
        }
    }

    /// Drops a staged batch that was not published yet.
    pub(super) fn unstage(&mut self, cx: &StepCx<'_>) {
        if self.is_staged() {
            self.progress.set_trial(None, cx.elapsed());
        }
        if let Some(trial_mode) = &mut self.trial_mode {
            trial_mode.staged = None;
        }
    }

    /// An event is done and the relay has not crashed: it is no longer on trial.
    pub(super) fn remove_from_trial(&mut self, position: Position) {
        if let Some(trial_mode) = &mut self.trial_mode {
            trial_mode.on_trial.remove(&position);
        }
    }

    /// The sink has answered and the relay has not crashed: these events are no longer on trial.
    pub(super) fn trial_answered(&mut self, batch: &OutboundBatch) {
        let Some(trial_mode) = &mut self.trial_mode else { return };
        for (_, position) in &batch.messages {
            trial_mode.on_trial.remove(position);
        }
        trial_mode.remaining = trial_mode.remaining.saturating_sub(batch.messages.len());
        if trial_mode.on_trial.is_empty() {
            trial_mode.events_max = trial_mode.events_max.saturating_mul(2);
        }
    }

    /// Ends the mode when every event that can have been in flight at the crash has an outcome: as many events as the
    /// window holds, or all events including the parked ones.
    pub(super) fn end_trial_mode(&mut self, cx: &StepCx<'_>) {
        let Some(trial_mode) = &self.trial_mode else { return };
        let caught_up = self.intake.is_caught_up() && self.fetch_schedule.is_empty();
        if trial_mode.on_trial.is_empty()
            && trial_mode.staged.is_none()
            && (trial_mode.remaining == 0 || caught_up)
        {
            self.trial_mode = None;
            self.progress.set_trial(None, cx.elapsed());
        }
    }
}
