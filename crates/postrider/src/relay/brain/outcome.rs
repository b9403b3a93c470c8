//! The sink answered: every message of the batch finds its next stage.

use std::sync::Arc;

use super::destination::Suspect;
use super::dispatch::Batch;
use super::fetch::remove;
use super::keys::{DestinationId, KeyId};
use super::leader::Leader;
use super::lines::Stage;
use super::turn::Turn;
use super::{BatchId, Effect, Report};
use crate::Position;
use crate::sink::{Failure, Outcome};

impl Leader {
    /// Takes in the outcomes of a batch.
    pub(super) fn published(&mut self, turn: &mut Turn<'_>, id: BatchId, outcomes: Vec<Outcome>) {
        let Some(batch) = self.batches.remove(&id) else { return };
        self.in_flight -= batch.messages.len();
        let outcomes = blame_somebody(outcomes);
        let mut acknowledged_by = Vec::new();
        let unanswered = || Outcome::Ambiguous(Failure::new("the sink returned no outcome for this message"));
        let outcomes = outcomes.into_iter().chain(std::iter::repeat_with(unanswered));
        for (&(key, position), outcome) in batch.messages.iter().zip(outcomes) {
            match outcome {
                Outcome::Acknowledged(_) => {
                    if let Some(destination) = self.acknowledged(turn, key, position)
                        && acknowledged_by.last() != Some(&destination)
                    {
                        acknowledged_by.push(destination);
                    }
                }
                other => self.not_acknowledged(turn, id, (key, position), other),
            }
        }
        // An acknowledgement in the same answer proves the destination up when its failures happened, unless the
        // sink knows better.
        for destination in acknowledged_by {
            self.destination_is_up(turn, destination, id);
        }
        self.go_on(turn, &batch);
        self.probe_answered(turn, &batch);
        self.trial_answered(&batch);
    }

    /// Settles a message in the books and takes it out of its line. Answers where it went.
    fn acknowledged(&mut self, turn: &mut Turn<'_>, key: KeyId, position: Position) -> Option<DestinationId> {
        let line = self.lines.get_mut(key)?;
        let entry = if line.head.position == position {
            self.lines.pop(key)?.head
        } else {
            // An earlier message of the key failed, so this one should not have become visible.
            turn.report(Report::OrderBroken(position));
            remove(&mut line.rest, position)?
        };
        self.acknowledged += 1;
        self.books.acknowledge(position, entry.parked, turn.elapsed());
        self.memory.drop(entry.body.as_ref());
        entry.body.map(|body| body.destination)
    }

    fn not_acknowledged(
        &mut self,
        turn: &mut Turn<'_>,
        batch: BatchId,
        (key, position): (KeyId, Position),
        outcome: Outcome,
    ) {
        if matches!(outcome, Outcome::Ambiguous(_)) {
            turn.report(Report::PossibleDuplicate(position));
        }
        // What follows a failed message of its key in the same batch waits behind it.
        let Some(line) = self.lines.get(key).filter(|line| line.head.position == position) else { return };
        let Some(body) = &line.head.body else { return };
        let (destination, name) = (body.destination, body.name.clone());
        match outcome {
            Outcome::Ambiguous(failure) if failure.destination_down => {
                self.wait_for_destination(turn, key, destination, &name, &failure);
            }
            Outcome::Retryable(failure) | Outcome::Ambiguous(failure) => {
                self.lines.set_stage(key, Stage::Suspect);
                let breaker_keys = turn.policy().breaker_keys;
                let beside = (!failure.after_last_acknowledgement).then_some(batch);
                let suspect = Suspect { key, failure, beside, since: BatchId(self.next_batch) };
                self.destination(destination, &name).suspect(suspect, breaker_keys);
            }
            Outcome::Down(failure) => {
                self.wait_for_destination(turn, key, destination, &name, &failure);
                if failure.pause && self.paused.is_none() {
                    turn.emit(Effect::Pause { epoch: self.lease.epoch, reason: failure.message.clone() });
                    self.set_paused(turn, Some(failure.message));
                }
            }
            Outcome::Failed(failure) => self.strike(turn, key, &failure),
            Outcome::Rejected(failure) => self.reject(turn, key, &failure.message),
            // Of a fenced one nothing is kept; see `hear`.
            Outcome::Acknowledged(_) | Outcome::Untried | Outcome::Fenced => {}
        }
    }

    /// Its destination is down: the line waits, and nothing is counted.
    fn wait_for_destination(
        &mut self,
        turn: &mut Turn<'_>,
        key: KeyId,
        destination: DestinationId,
        name: &Arc<str>,
        failure: &Failure,
    ) {
        self.lines.block(key);
        self.destination(destination, name).blocked.push_back(key);
        self.destination_is_down(turn, destination, failure);
    }

    /// Lines that are still as they were when the batch left go on with their next event.
    fn go_on(&mut self, turn: &Turn<'_>, batch: &Batch) {
        for &(key, _) in &batch.messages {
            if self.lines.stage(key) == Some(Stage::InFlight) {
                self.proceed(turn, key);
            }
        }
    }

    /// The head of a line is new or free: it goes on if it is in memory, else it is fetched.
    pub(super) fn proceed(&mut self, turn: &Turn<'_>, key: KeyId) {
        let Some(line) = self.lines.get_mut(key) else { return };
        if line.head.body.is_some() {
            line.stage = Stage::Ready;
            self.push_ready(turn, key);
        } else {
            self.want(key);
        }
    }
}

/// An answer of only "untried" has no reason: without one the batch would be sent again at once, for
/// ever. Its first message is taken for failed.
fn blame_somebody(mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    if outcomes.iter().all(|outcome| *outcome == Outcome::Untried)
        && let Some(first) = outcomes.first_mut()
    {
        *first = Outcome::Retryable(Failure::new("the sink did not try any message of the batch"));
    }
    outcomes
}
