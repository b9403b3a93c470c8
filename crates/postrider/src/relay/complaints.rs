//! What destinations say of messages they do not take, told once each.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use super::brain::Routed;
use crate::sink::Outcome;

/// Different complaints told per ownership of the lease. The rest is in the table of parked events.
const TOLD_MAX: usize = 32;

/// Logs why messages fail by their own fault: a topic that is missing, a message that is too large. Each reason once,
/// so that an operator sees it and a stream of bad messages does not fill the log. An outage is told by the breaker.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<HashSet<String>>);

impl Complaints {
    /// Another ownership begins.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Takes in the outcomes of a batch. Answers how many reasons it told.
    pub(super) fn hear(&self, subscription: &str, batch: &[Routed], outcomes: &[Outcome]) -> usize {
        let mut told = 0;
        for (routed, outcome) in batch.iter().zip(outcomes) {
            let (Outcome::Failed(failure) | Outcome::Rejected(failure)) = outcome else { continue };
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() < TOLD_MAX && !known.contains(&failure.message) {
                known.insert(failure.message.clone());
                told += 1;
                let position = routed.position.get();
                tracing::warn!(subscription, position, "not taken by the destination: {}", failure.message);
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::brain::{KeyId, Route};
    use super::*;
    use crate::sink::{Failure, Receipt};
    use crate::{Event, Position};

    fn hear(complaints: &Complaints, outcomes: &[Outcome]) -> usize {
        let routed = |at: usize| Routed {
            position: Position::new(at as i64 + 1),
            key: KeyId(at as u64),
            route: Route::Filtered,
            event: Arc::new(Event::new("a", "{}")),
        };
        let batch: Vec<Routed> = (0..outcomes.len()).map(routed).collect();
        complaints.hear("orders", &batch, outcomes)
    }

    #[test]
    fn each_reason_is_told_once_per_ownership_and_only_so_many_of_them() {
        let failed = |why: &str| Outcome::Failed(Failure::new(why));
        let rejected = |why: &str| Outcome::Rejected(Failure::new(why));
        let complaints = Complaints::default();
        assert_eq!(hear(&complaints, &[failed("no topic"), rejected("too large"), failed("no topic")]), 2);
        assert_eq!(hear(&complaints, &[failed("no topic")]), 0);
        complaints.forget();
        assert_eq!(hear(&complaints, &[failed("no topic")]), 1);
        let many: Vec<Outcome> = (0..100).map(|at| rejected(&at.to_string())).collect();
        assert_eq!(hear(&complaints, &many), TOLD_MAX - 1);
    }

    #[test]
    fn what_is_no_fault_of_the_message_is_not_told() {
        let down = Outcome::Down(Failure::new("down"));
        let retryable = Outcome::Retryable(Failure::new("503"));
        let fine = Outcome::Acknowledged(Receipt::default());
        assert_eq!(hear(&Complaints::default(), &[down, retryable, fine, Outcome::Untried]), 0);
    }
}
