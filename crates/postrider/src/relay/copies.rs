//! One event for several destinations: it is done when all of them have acknowledged it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::report::display_destination;
use crate::route::Delivery;
use crate::sink::{Failure, Message, Outcome, Receipt};
use crate::{Event, Position};

/// Maximum number of events remembered. For further events, a retry sends all copies again.
const EVENTS_MAX: usize = 100_000;

/// Remembers which copies of an event were acknowledged while others were not, so that a retry sends only the missing
/// ones. In memory, for one term: after a crash or takeover, a retry sends all copies again.
#[derive(Debug, Default)]
pub(super) struct Copies(Mutex<AcknowledgedCopies>);

/// Destinations that have an event. By position and id: another history may hold another event in its place.
type AcknowledgedCopies = HashMap<(Position, Uuid), Vec<Arc<str>>>;

impl Copies {
    /// Another term begins.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// The numbers of the copies that must still be sent.
    pub(super) fn missing(&self, position: Position, event: &Event, delivery: &Delivery) -> Vec<usize> {
        let known = self.lock();
        let acknowledged = known.get(&(position, event.id)).map_or(&[][..], Vec::as_slice);
        let copies = delivery.copies.iter().enumerate();
        let missing: Vec<usize> = copies
            .filter(|(_, p)| !acknowledged.contains(&p.destination))
            .map(|(number, _)| number)
            .collect();
        // An event that all destinations have should be done already. To send it again is safe; to send nothing would
        // lose its outcome.
        if missing.is_empty() { (0..delivery.copies.len()).collect() } else { missing }
    }

    /// The outcome of an event from the outcomes of its messages: the one with the highest [`rank`], so that every
    /// copy is retried before the event is given up.
    pub(super) fn outcome(&self, messages: &[Message], outcomes: Vec<Outcome>) -> Outcome {
        let Some(first) = messages.first() else { return Outcome::Untried };
        let mut worst = Outcome::Acknowledged(Receipt::default());
        let mut acknowledged = Vec::new();
        for (message, outcome) in messages.iter().zip(outcomes) {
            if matches!(outcome, Outcome::Acknowledged(_)) {
                acknowledged.push(message.destination.clone());
            }
            let outcome = with_destination(&message.destination, outcome);
            if rank(&outcome) > rank(&worst) {
                worst = outcome;
            }
        }
        let event = (first.position, first.event.id);
        let mut known = self.lock();
        if matches!(worst, Outcome::Acknowledged(_) | Outcome::Rejected(_)) {
            known.remove(&event);
        } else if !acknowledged.is_empty() && (known.len() < EVENTS_MAX || known.contains_key(&event)) {
            known.entry(event).or_default().extend(acknowledged);
        }
        worst
    }

    fn lock(&self) -> MutexGuard<'_, AcknowledgedCopies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Outcomes that a retry may change rank above a rejection: a copy that is rejected permanently must not prevent
/// retries of the others. An outage ranks higher, because it counts against no message. An untried copy ranks below a
/// rejection: it was not tried because of that rejection, and a retry would end the same way, without end.
fn rank(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Acknowledged(_) => 0,
        Outcome::Untried => 1,
        Outcome::Rejected(_) => 2,
        Outcome::Failed(_) => 3,
        Outcome::Retryable(_) => 4,
        Outcome::Ambiguous(_) => 5,
        Outcome::Down(_) => 6,
        Outcome::Fenced => 7,
    }
}

/// Adds the destination to the message of a failure.
fn with_destination(destination: &str, outcome: Outcome) -> Outcome {
    let destination = display_destination(destination);
    let named =
        |failure: Failure| Failure { message: format!("{destination}: {}", failure.message), ..failure };
    match outcome {
        Outcome::Retryable(failure) => Outcome::Retryable(named(failure)),
        Outcome::Failed(failure) => Outcome::Failed(named(failure)),
        Outcome::Rejected(failure) => Outcome::Rejected(named(failure)),
        Outcome::Ambiguous(failure) => Outcome::Ambiguous(named(failure)),
        Outcome::Down(failure) => Outcome::Down(named(failure)),
        Outcome::Acknowledged(_) | Outcome::Untried | Outcome::Fenced => outcome,
    }
}
