//! The model of a destination: the list of visible messages.

use std::collections::BTreeSet;

use postrider::Position;
use postrider::sink::{Failure, Outcome, Receipt};
use uuid::Uuid;

use super::{Response, Script};

/// A message that is offered to the destination.
#[derive(Debug, Clone, Copy)]
pub struct Offer<'a> {
    /// The id of the event.
    pub event: Uuid,
    /// Its position in the outbox.
    pub position: Position,
    /// Its ordering key.
    pub key: Option<&'a str>,
    /// The process that publishes it.
    pub writer: u64,
}

/// A message that became visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The id of the event.
    pub event: Uuid,
    /// Its position in the outbox.
    pub position: Position,
    /// The process that published it.
    pub writer: u64,
}

/// The result of an offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offered {
    /// The outcome.
    Answer(Outcome),
    /// No answer for this message and the rest of the batch.
    NoAnswer,
    /// The process that offered the message dies.
    ProcessDied,
}

/// The state of one batch: whether it ended early, and the keys that stopped, if the destination is prefix safe.
#[derive(Debug, Clone, Default)]
pub struct BatchState {
    stopped: BTreeSet<String>,
    ended: bool,
}

/// A destination with its script and its visible messages.
#[derive(Debug, Clone, Default)]
pub struct Destination {
    /// After a message that was not acknowledged, refuses later messages of its key in the same batch.
    pub prefix_safe: bool,
    /// Decides the response to each message.
    pub script: Script,
    writes: Vec<Write>,
}

impl Destination {
    /// An empty destination that is up.
    pub fn new(prefix_safe: bool) -> Self {
        Self { prefix_safe, ..Self::default() }
    }

    /// Offers the next message of a batch.
    pub fn offer(&mut self, batch: &mut BatchState, offer: Offer<'_>) -> Offered {
        let stops = self.prefix_safe && offer.key.is_some();
        if batch.ended || stops && offer.key.is_some_and(|key| batch.stopped.contains(key)) {
            return Offered::Answer(Outcome::Untried);
        }
        let response = self.script.response(offer.event);
        if stops && response != Response::Accept {
            batch.stopped.extend(offer.key.map(str::to_owned));
        }
        batch.ended = response == Response::RetryAndStop;
        if matches!(response, Response::Accept | Response::AcceptUnacknowledged | Response::AcceptAndHang) {
            let Offer { event, position, writer, .. } = offer;
            self.writes.push(Write { event, position, writer });
        }
        match response {
            Response::Accept => Offered::Answer(Outcome::Acknowledged(self.receipt())),
            Response::Reject => Offered::Answer(Outcome::Rejected(Failure::new("refused"))),
            Response::Fail => Offered::Answer(Outcome::Failed(Failure::new("failed"))),
            Response::Retry | Response::RetryAndStop => {
                Offered::Answer(Outcome::Retryable(Failure::new("connection reset")))
            }
            Response::AcceptUnacknowledged | Response::DropUnacknowledged => {
                Offered::Answer(Outcome::Ambiguous(Failure::new("no acknowledgement")))
            }
            Response::Down => Offered::Answer(Outcome::Down(Failure::new("down"))),
            Response::Hang | Response::AcceptAndHang => Offered::NoAnswer,
            Response::Kill => Offered::ProcessDied,
        }
    }

    /// All visible messages, in order.
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
        destination.script.fault_next(Response::AcceptUnacknowledged);
        let mut batch = BatchState::default();
        assert!(matches!(
            destination.offer(&mut batch, offer(1, "a")),
            Offered::Answer(Outcome::Ambiguous(_))
        ));
        assert_eq!(destination.offer(&mut batch, offer(2, "a")), Offered::Answer(Outcome::Untried));
        assert!(matches!(
            destination.offer(&mut batch, offer(3, "b")),
            Offered::Answer(Outcome::Acknowledged(_))
        ));
        let events: Vec<u128> = destination.writes().iter().map(|w| w.event.as_u128()).collect();
        assert_eq!(events, [1, 3]);
    }

    #[test]
    fn a_destination_that_is_not_prefix_safe_accepts_the_rest_of_a_key_after_a_failure() {
        let mut destination = Destination::default();
        destination.script.fault_next(Response::Retry);
        let mut batch = BatchState::default();
        destination.offer(&mut batch, offer(1, "a"));
        destination.offer(&mut batch, offer(2, "a"));
        assert_eq!(destination.writes().len(), 1);
    }
}
