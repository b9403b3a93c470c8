//! The model of a destination: a log of visible writes.

use std::collections::BTreeSet;

use postrider::Position;
use postrider::sink::{Failure, Outcome, Receipt};
use uuid::Uuid;

use super::{Fate, Script};

/// A message on offer, as far as the model cares.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// Which event.
    pub event: Uuid,
    /// Its position in the outbox.
    pub position: Position,
    /// What orders it.
    pub key: Option<&'a str>,
    /// Who publishes it.
    pub writer: u64,
}

/// A message that became visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Which event.
    pub event: Uuid,
    /// Its position in the outbox.
    pub position: Position,
    /// Who published it.
    pub writer: u64,
}

/// What became of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// This is the answer.
    Answer(Outcome),
    /// There will be no answer for the rest of the batch.
    Silence,
    /// The process that made the offer is dead.
    Death,
}

/// One batch on its way: whether it ended early, and the keys that stopped if the destination is prefix safe.
#[derive(Debug, Clone, Default)]
pub struct Passage {
    stopped: BTreeSet<String>,
    ended: bool,
}

/// A destination with its script and what it has taken.
#[derive(Debug, Clone, Default)]
pub struct Destination {
    /// Keeps later messages of a key out of a batch once one was not acknowledged.
    pub prefix_safe: bool,
    /// What is to happen.
    pub script: Script,
    writes: Vec<Write>,
}

impl Destination {
    /// An empty destination that is up.
    pub fn new(prefix_safe: bool) -> Self {
        Self { prefix_safe, ..Self::default() }
    }

    /// Offers one message of a batch, in the batch's order.
    pub fn offer(&mut self, passage: &mut Passage, offer: Offer<'_>) -> Taken {
        let stops = self.prefix_safe && offer.key.is_some();
        if passage.ended || stops && offer.key.is_some_and(|key| passage.stopped.contains(key)) {
            return Taken::Answer(Outcome::Untried);
        }
        let fate = self.script.fate(offer.event);
        if stops && fate != Fate::Take {
            passage.stopped.extend(offer.key.map(str::to_owned));
        }
        passage.ended = fate == Fate::Stop;
        if matches!(fate, Fate::Take | Fate::TakeSilently | Fate::TakeAndHang) {
            let Offer { event, position, writer, .. } = offer;
            self.writes.push(Write { event, position, writer });
        }
        match fate {
            Fate::Take => Taken::Answer(Outcome::Acknowledged(self.receipt())),
            Fate::Reject => Taken::Answer(Outcome::Rejected(Failure::new("refused"))),
            Fate::Fail => Taken::Answer(Outcome::Failed(Failure::new("failed"))),
            Fate::Retry | Fate::Stop => Taken::Answer(Outcome::Retryable(Failure::new("connection reset"))),
            Fate::TakeSilently | Fate::DropSilently => {
                Taken::Answer(Outcome::Ambiguous(Failure::new("no acknowledgement")))
            }
            Fate::Down => Taken::Answer(Outcome::Down(Failure::new("down"))),
            Fate::Hang | Fate::TakeAndHang => Taken::Silence,
            Fate::Kill => Taken::Death,
        }
    }

    /// Everything that became visible, in order.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    fn receipt(&self) -> Receipt {
        Receipt::new(format!("offset {}", self.writes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(number: u128, key: &str) -> Offer<'_> {
        Offer { event: Uuid::from_u128(number), position: Position::new(1), key: Some(key), writer: 0 }
    }

    #[test]
    fn a_prefix_safe_destination_refuses_the_rest_of_a_key_after_a_failure() {
        let mut destination = Destination::new(true);
        destination.script.mishap(Fate::TakeSilently);
        let mut passage = Passage::default();
        assert!(matches!(
            destination.offer(&mut passage, offer(1, "a")),
            Taken::Answer(Outcome::Ambiguous(_))
        ));
        assert_eq!(destination.offer(&mut passage, offer(2, "a")), Taken::Answer(Outcome::Untried));
        assert!(matches!(
            destination.offer(&mut passage, offer(3, "b")),
            Taken::Answer(Outcome::Acknowledged(_))
        ));
        let events: Vec<u128> = destination.writes().iter().map(|w| w.event.as_u128()).collect();
        assert_eq!(events, [1, 3]);
    }

    #[test]
    fn a_destination_that_is_not_prefix_safe_accepts_the_rest_of_a_key_after_a_failure() {
        let mut destination = Destination::default();
        destination.script.mishap(Fate::Retry);
        let mut passage = Passage::default();
        destination.offer(&mut passage, offer(1, "a"));
        destination.offer(&mut passage, offer(2, "a"));
        assert_eq!(destination.writes().len(), 1);
    }
}
