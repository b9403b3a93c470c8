//! After a relay died: small batches, each recorded before it is published, until the events that were in flight when
//! it died are done. An event that crashes the process is found and parked this way.

use std::collections::BTreeSet;

use super::leader::Leader;
use super::outbound::Batch;
use super::step::StepCx;
use super::{KeyId, ParkedEvent};
use crate::Position;
use crate::ledger::Trial;
use crate::relay::Policy;
use crate::store::Loaded;

/// The start of the reason with which an event that crashes the process is parked as dead.
pub const CONDEMNED: &str = "the relay crashed";

/// How much a batch shrinks when a relay died with it: finds one event in thousands in few deaths.
const SHRINK: usize = 8;

/// The careful mode after a relay died.
#[derive(Debug)]
pub(super) struct Caution {
    /// Events in the next batch.
    pub(super) events_max: usize,
    /// Events that were on trial when the relay died, and that have had no outcome since.
    accused: BTreeSet<Position>,
    /// Relays that died with the one accused event alone.
    deaths: u32,
    /// The accused event has crashed relays often enough to be given up.
    condemned: Option<Position>,
    /// Events still to be published carefully: as many as could have been in flight.
    remaining: usize,
    /// A batch that is recorded before it is published.
    staged: Option<Batch>,
    /// The flush that records it is in progress.
    writing: bool,
}

impl Caution {
    /// How careful to be, after what the last owner left behind.
    pub(super) fn after(loaded: &Loaded, parked: &[ParkedEvent], policy: &Policy) -> Self {
        let progress = &loaded.progress;
        let parked: BTreeSet<Position> = parked.iter().map(|event| event.row.position).collect();
        let unanswered =
            |position: &Position| !progress.done.contains(*position) || parked.contains(position);
        let mut caution = Self {
            events_max: policy.trial_events,
            accused: BTreeSet::new(),
            deaths: 0,
            condemned: None,
            remaining: policy.window_events_max,
            staged: None,
            writing: false,
        };
        if let Some(trial) = progress.trial.as_ref().filter(|trial| trial.positions.iter().any(unanswered)) {
            caution.events_max = (trial.positions.len() / SHRINK).max(1);
            caution.accused = trial.positions.iter().copied().filter(unanswered).collect();
            if let [position] = trial.positions[..] {
                caution.deaths = trial.deaths + 1;
                caution.condemned = (caution.deaths >= policy.trial_deaths_max).then_some(position);
            }
        }
        caution
    }

    /// Counts the deaths on if the very same event is tried alone again.
    fn trial(&self, batch: &Batch) -> Trial {
        let positions: Vec<Position> = batch.messages.iter().map(|(_, position)| *position).collect();
        let again = positions.len() == 1 && self.accused.iter().eq(&positions);
        Trial { positions, deaths: if again { self.deaths } else { 0 } }
    }
}

impl Leader {
    /// Why the head of a queue must not be tried again, if so.
    pub(super) fn condemned(&self, key: KeyId) -> Option<String> {
        let caution = self.caution.as_ref()?;
        let position = self.queues.get(key)?.head.position;
        (caution.condemned == Some(position))
            .then(|| format!("{CONDEMNED} {} times while publishing this event", caution.deaths))
    }

    pub(super) fn is_staged(&self) -> bool {
        self.caution.as_ref().is_some_and(|caution| caution.staged.is_some())
    }

    /// Keys of a batch that is being written down.
    pub(super) fn staged_keys(&self) -> impl Iterator<Item = KeyId> {
        let staged = self.caution.as_ref().and_then(|caution| caution.staged.as_ref());
        staged.into_iter().flat_map(|batch| &batch.messages).map(|(key, _)| *key)
    }

    /// Has a batch written down; it is published when that is settled.
    pub(super) fn stage(&mut self, cx: &StepCx<'_>, batch: Batch) {
        let Some(caution) = &mut self.caution else { return };
        self.progress.set_trial(Some(caution.trial(&batch)), cx.elapsed());
        caution.staged = Some(batch);
    }

    /// A flush begins; it writes a staged batch down.
    pub(super) fn writing_staged(&mut self) {
        if let Some(caution) = &mut self.caution {
            caution.writing = caution.staged.is_some();
        }
    }

    /// That flush did not happen.
    pub(super) fn writing_failed(&mut self) {
        if let Some(caution) = &mut self.caution {
            caution.writing = false;
        }
    }

    /// A flush is settled: a batch it wrote down may be published.
    pub(super) fn publish_staged(&mut self, cx: &mut StepCx<'_>) {
        let Some(caution) = self.caution.as_mut().filter(|caution| caution.writing) else { return };
        caution.writing = false;
        if let Some(batch) = caution.staged.take() {
            self.publish(cx, batch);
        }
    }

    /// Takes a staged batch back; it was never published.
    pub(super) fn unstage(&mut self, cx: &StepCx<'_>) {
        if self.is_staged() {
            self.progress.set_trial(None, cx.elapsed());
        }
        if let Some(caution) = &mut self.caution {
            caution.staged = None;
        }
    }

    /// An event is done and the relay did not die: it is no longer accused.
    pub(super) fn clear_suspicion(&mut self, position: Position) {
        if let Some(caution) = &mut self.caution {
            caution.accused.remove(&position);
        }
    }

    /// The sink answered and the relay is alive: these events do not crash it.
    pub(super) fn trial_answered(&mut self, batch: &Batch) {
        let Some(caution) = &mut self.caution else { return };
        for (_, position) in &batch.messages {
            caution.accused.remove(position);
        }
        caution.remaining = caution.remaining.saturating_sub(batch.messages.len());
        if caution.accused.is_empty() {
            caution.events_max = caution.events_max.saturating_mul(2);
        }
    }

    /// Ends the careful mode when every event that can have been in flight when the relay died has an outcome: as
    /// many events as the window holds, or all events including the parked ones.
    pub(super) fn end_caution(&mut self, cx: &StepCx<'_>) {
        let Some(caution) = &self.caution else { return };
        let caught_up = self.intake.is_caught_up() && self.fetch_schedule.is_empty();
        if caution.accused.is_empty() && caution.staged.is_none() && (caution.remaining == 0 || caught_up) {
            self.caution = None;
            self.progress.set_trial(None, cx.elapsed());
        }
    }
}
