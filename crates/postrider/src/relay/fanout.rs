//! One event for several destinations: it is done when all have it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use super::report::shown;
use crate::route::Delivery;
use crate::sink::{Failure, Message, Outcome, Receipt};
use crate::{Event, Position};

/// Events remembered. Of those beyond, a retry sends all copies again.
const EVENTS_MAX: usize = 100_000;

/// Remembers which copies of an event were acknowledged while others were not, so that a retry sends only
/// the missing ones. Lives as long as one ownership of the lease.
#[derive(Debug, Default)]
pub(super) struct Fanout(Mutex<Taken>);

/// Destinations that have an event. By position and id: another history may hold another event in its place.
type Taken = HashMap<(Position, Uuid), Vec<Arc<str>>>;

impl Fanout {
    /// Another ownership begins.
    pub(super) fn forget(&self) {
        self.lock().clear();
    }

    /// Numbers of the copies that are still to be sent.
    pub(super) fn missing(&self, position: Position, event: &Event, delivery: &Delivery) -> Vec<usize> {
        let known = self.lock();
        let taken = known.get(&(position, event.id)).map_or(&[][..], Vec::as_slice);
        let copies = delivery.copies.iter().enumerate();
        let missing: Vec<usize> =
            copies.filter(|(_, p)| !taken.contains(&p.destination)).map(|(number, _)| number).collect();
        // An event that all have would be done; to send it again is safe, to send nothing is not.
        if missing.is_empty() { (0..delivery.copies.len()).collect() } else { missing }
    }

    /// The outcome of an event from those of the messages sent for it: that of the message that is hardest
    /// on the destination, so that every copy has its chance before the event is given up.
    pub(super) fn outcome(&self, messages: &[Message], outcomes: Vec<Outcome>) -> Outcome {
        let Some(first) = messages.first() else { return Outcome::Untried };
        let mut worst = Outcome::Acknowledged(Receipt::default());
        let mut taken = Vec::new();
        for (message, outcome) in messages.iter().zip(outcomes) {
            if matches!(outcome, Outcome::Acknowledged(_)) {
                taken.push(message.destination.clone());
            }
            let outcome = naming(&message.destination, outcome);
            if rank(&outcome) > rank(&worst) {
                worst = outcome;
            }
        }
        let event = (first.position, first.event.id);
        let mut known = self.lock();
        if matches!(worst, Outcome::Acknowledged(_) | Outcome::Rejected(_)) {
            known.remove(&event);
        } else if !taken.is_empty() && (known.len() < EVENTS_MAX || known.contains_key(&event)) {
            known.entry(event).or_default().extend(taken);
        }
        worst
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What may pass comes before what will not: a copy that is refused forever must not keep the others from
/// being tried again. An outage comes first, for it counts against no message. A copy that was not tried because
/// another was refused comes after that: sent again, both would only end the same way, without end.
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

/// Says in a failure which of the destinations it was.
fn naming(destination: &str, outcome: Outcome) -> Outcome {
    let destination = shown(destination);
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
