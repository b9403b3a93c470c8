//! Handing a batch to the sink: encode, publish, and one outcome per message whatever happens.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::brain::{KeyId, Route, Routed};
use crate::encode::Encoder;
use crate::sink::{Failure, Message, Outcome, Sink};

/// What publishing needs.
#[derive(Clone)]
pub(super) struct Publisher {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) encoder: Arc<dyn Encoder>,
    pub(super) timeout: Duration,
}

impl Publisher {
    /// Publishes a batch. One outcome per event, in order.
    pub(super) async fn publish(self, batch: Vec<Routed>) -> Vec<Outcome> {
        let encoded = self.encode(batch);
        let (messages, mut outcomes) = encoded;
        if messages.is_empty() {
            return outcomes.into_iter().flatten().collect();
        }
        let answers = match tokio::time::timeout(self.timeout, self.sink.publish(&messages)).await {
            Ok(answers) => answers,
            Err(_) => {
                let failure = Failure::new(format!("no answer from the sink within {:?}", self.timeout));
                vec![Outcome::Ambiguous(failure); messages.len()]
            }
        };
        let missing = || Outcome::Ambiguous(Failure::new("the sink gave no outcome for this message"));
        let mut answers = answers.into_iter().chain(std::iter::repeat_with(missing));
        for outcome in &mut outcomes {
            if outcome.is_none() {
                *outcome = answers.next();
            }
        }
        outcomes.into_iter().flatten().collect()
    }

    /// Publishes each event alone, so that one the sink panics on does not take the others with it.
    pub(super) async fn publish_apart(self, batch: Vec<Routed>) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut failed = HashSet::new();
        for event in batch {
            let key = event.key;
            if failed.contains(&key) {
                outcomes.push(Outcome::Untried);
                continue;
            }
            let outcome = match tokio::spawn(self.clone().publish(vec![event])).await {
                Ok(answers) => answers.into_iter().next().unwrap_or(Outcome::Untried),
                Err(_) => Outcome::Failed(Failure::new("the sink panicked on this message")),
            };
            if !matches!(outcome, Outcome::Acknowledged(_)) {
                failed.insert(key);
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Encodes a batch. An event that cannot be encoded is rejected, and what follows it of its key is not
    /// sent before the brain has decided about it; the outcomes of all others are still open.
    fn encode(&self, batch: Vec<Routed>) -> (Vec<Message>, Vec<Option<Outcome>>) {
        let mut messages = Vec::with_capacity(batch.len());
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut rejected: Vec<KeyId> = Vec::new();
        for Routed { position, key, route, event } in batch {
            let Route::To { name, .. } = route else { continue };
            if rejected.contains(&key) {
                outcomes.push(Some(Outcome::Untried));
                continue;
            }
            match self.encoder.encode(position, &event) {
                Ok(encoded) => {
                    messages.push(Message::new(position, event, name, encoded));
                    outcomes.push(None);
                }
                Err(error) => {
                    rejected.push(key);
                    outcomes.push(Some(Outcome::Rejected(Failure::new(error.what()))));
                }
            }
        }
        (messages, outcomes)
    }
}
