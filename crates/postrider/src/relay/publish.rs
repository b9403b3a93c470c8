//! Publishes a batch: encode, send, and return one outcome per event whatever happens. Nothing is recorded here: if the
//! process dies before the outcomes are settled, the events are published again.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::brain::{Disposition, KeyId, Routed};
use super::copies::Copies;
use super::span;
use crate::Result;
use crate::encode::Encoder;
use crate::sink::{EarlyOutcomes, Failure, Message, Outcome, Sink};

/// Encodes and sends the batches of one subscription.
#[derive(Clone)]
pub(super) struct Publisher {
    pub(super) subscription: Arc<str>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) encoder: Arc<dyn Encoder>,
    pub(super) timeout: Duration,
    pub(super) copies: Arc<Copies>,
}

impl Publisher {
    /// Publishes a batch. One outcome per event, in order.
    pub(super) async fn publish(self, batch: Arc<Vec<Routed>>, early: Arc<EarlyOutcomes>) -> Vec<Outcome> {
        let span = span::of(&self.subscription, &batch);
        let outcomes = self.publish_all(&batch, &early).instrument(span.clone()).await;
        span::record_outcomes(&span, &outcomes);
        outcomes
    }

    async fn publish_all(&self, batch: &[Routed], early: &EarlyOutcomes) -> Vec<Outcome> {
        let EncodedBatch { messages, special } = self.encode(batch);
        // Only if every event is one message are the indexes of messages those of events.
        let held_back = EarlyOutcomes::default();
        let early = if special.is_empty() { early } else { &held_back };
        let answers = if messages.is_empty() { Vec::new() } else { self.send(&messages, early).await };
        if special.is_empty() && answers.len() == batch.len() {
            return answers;
        }
        let missing = || Outcome::Ambiguous(Failure::new("the sink returned no outcome for this message"));
        let mut answers = answers.into_iter().chain(std::iter::repeat_with(missing));
        let mut special = special.into_iter().peekable();
        let outcome = |at| match special.next_if(|(index, _)| *index == at) {
            Some((_, Special::NotSent(outcome))) => Some(outcome),
            Some((_, Special::Copies(sent))) => {
                let outcomes = answers.by_ref().take(sent.len()).collect();
                Some(self.copies.outcome(&messages[sent], outcomes))
            }
            None => answers.next(),
        };
        (0..batch.len()).filter_map(outcome).collect()
    }

    async fn send(&self, messages: &[Message], early: &EarlyOutcomes) -> Vec<Outcome> {
        match tokio::time::timeout(self.timeout, self.sink.publish_each(messages, early)).await {
            Ok(answers) => answers,
            Err(_) => {
                let failure = Failure::new(format!("no answer from the sink within {:?}", self.timeout));
                vec![Outcome::Ambiguous(failure); messages.len()]
            }
        }
    }

    /// Publishes each event alone after the sink panicked on the batch, so that only the event that causes the panic
    /// fails. Events that were written before the panic are written twice. The event that causes the panic may have
    /// been written too, so its outcome is ambiguous.
    pub(super) async fn publish_apart(self, batch: &[Routed]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut failed = HashSet::new();
        for event in batch {
            if failed.contains(&event.key) {
                outcomes.push(Outcome::Untried);
                continue;
            }
            let mut task = JoinSet::new();
            task.spawn(self.clone().publish(Arc::new(vec![event.clone()]), Arc::default()));
            let outcome = match task.join_next().await {
                Some(Ok(answers)) => answers.into_iter().next().unwrap_or(Outcome::Untried),
                _ => Outcome::Ambiguous(Failure::new("the sink panicked on this message")),
            };
            if !matches!(outcome, Outcome::Acknowledged(_)) {
                failed.insert(event.key);
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Encodes a batch. An event that cannot be encoded is rejected. Later events of its key are not sent, because
    /// the brain may have to block the key.
    fn encode(&self, batch: &[Routed]) -> EncodedBatch {
        let mut encoded = EncodedBatch { messages: Vec::with_capacity(batch.len()), special: Vec::new() };
        let mut rejected: Vec<KeyId> = Vec::new();
        for (at, routed) in batch.iter().enumerate() {
            if !rejected.is_empty() && rejected.contains(&routed.key) {
                encoded.special.push((at, Special::NotSent(Outcome::Untried)));
            } else if let Err(error) = self.encode_one(at, routed, &mut encoded) {
                rejected.push(routed.key);
                let rejection = Outcome::Rejected(Failure::new(error.message()));
                encoded.special.push((at, Special::NotSent(rejection)));
            }
        }
        encoded
    }

    fn encode_one(&self, at: usize, routed: &Routed, encoded: &mut EncodedBatch) -> Result<()> {
        let Routed { position, event, .. } = routed;
        let attempt = routed.attempts.saturating_add(1);
        let Disposition::Deliver { name, delivery, .. } = &routed.disposition else {
            // The brain sends nothing else here. If it did, an event without an outcome would shift those of the
            // others.
            let failure = Failure::new("the event has no destination");
            encoded.special.push((at, Special::NotSent(Outcome::Retryable(failure))));
            return Ok(());
        };
        let Some(delivery) = delivery else {
            let message = Message::encode(&self.encoder, *position, event.clone(), name.clone())?;
            encoded.messages.push(message.with_attempt(attempt, routed.redelivery));
            return Ok(());
        };
        let missing = match &delivery.copies[..] {
            [_] => vec![0],
            _ => self.copies.missing(*position, event, delivery),
        };
        let messages = Message::encode_copies(&self.encoder, *position, event, delivery, &missing)?;
        let start = encoded.messages.len();
        encoded
            .messages
            .extend(messages.into_iter().map(|message| message.with_attempt(attempt, routed.redelivery)));
        if delivery.copies.len() > 1 {
            encoded.special.push((at, Special::Copies(start..encoded.messages.len())));
        }
        Ok(())
    }
}

/// A batch after encoding.
struct EncodedBatch {
    messages: Vec<Message>,
    /// Events that are not one message each, by their index in the batch, ascending.
    special: Vec<(usize, Special)>,
}

/// An event that does not become exactly one message.
enum Special {
    /// It is not sent; this is its outcome.
    NotSent(Outcome),
    /// It becomes these messages, one per destination.
    Copies(Range<usize>),
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
