//! Handing a batch to the sink: encode, publish, and one outcome per message whatever happens.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

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
    pub(super) async fn publish(self, batch: Arc<Vec<Routed>>) -> Vec<Outcome> {
        let Encoded { messages, refused } = self.encode(&batch);
        let answers = if messages.is_empty() { Vec::new() } else { self.send(&messages).await };
        if refused.is_empty() && answers.len() == batch.len() {
            return answers;
        }
        let missing = || Outcome::Ambiguous(Failure::new("the sink gave no outcome for this message"));
        let mut answers = answers.into_iter().chain(std::iter::repeat_with(missing));
        let mut refused = refused.into_iter().peekable();
        let outcome = |at| match refused.next_if(|(index, _)| *index == at) {
            Some((_, outcome)) => Some(outcome),
            None => answers.next(),
        };
        (0..batch.len()).filter_map(outcome).collect()
    }

    async fn send(&self, messages: &[Message]) -> Vec<Outcome> {
        match tokio::time::timeout(self.timeout, self.sink.publish(messages)).await {
            Ok(answers) => answers,
            Err(_) => {
                let failure = Failure::new(format!("no answer from the sink within {:?}", self.timeout));
                vec![Outcome::Ambiguous(failure); messages.len()]
            }
        }
    }

    /// Publishes each event alone, so that one the sink panics on does not take the others with it.
    pub(super) async fn publish_apart(self, batch: &[Routed]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut failed = HashSet::new();
        for event in batch {
            if failed.contains(&event.key) {
                outcomes.push(Outcome::Untried);
                continue;
            }
            let mut task = JoinSet::new();
            task.spawn(self.clone().publish(Arc::new(vec![event.clone()])));
            let outcome = match task.join_next().await {
                Some(Ok(answers)) => answers.into_iter().next().unwrap_or(Outcome::Untried),
                _ => Outcome::Failed(Failure::new("the sink panicked on this message")),
            };
            if !matches!(outcome, Outcome::Acknowledged(_)) {
                failed.insert(event.key);
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Encodes a batch. An event that cannot be encoded is rejected, and what follows it of its key is not
    /// sent before the brain has decided about it.
    fn encode(&self, batch: &[Routed]) -> Encoded {
        let mut encoded = Encoded { messages: Vec::with_capacity(batch.len()), refused: Vec::new() };
        let mut rejected: Vec<KeyId> = Vec::new();
        for (at, Routed { position, key, route, event }) in batch.iter().enumerate() {
            let Route::To { name, .. } = route else { continue };
            if !rejected.is_empty() && rejected.contains(key) {
                encoded.refused.push((at, Outcome::Untried));
                continue;
            }
            match Message::encode(&self.encoder, *position, event.clone(), name.clone()) {
                Ok(message) => encoded.messages.push(message),
                Err(error) => {
                    rejected.push(*key);
                    encoded.refused.push((at, Outcome::Rejected(Failure::new(error.what()))));
                }
            }
        }
        encoded
    }
}

/// A batch after encoding.
struct Encoded {
    messages: Vec<Message>,
    /// Events that do not go to the sink, by their place in the batch, ascending.
    refused: Vec<(usize, Outcome)>,
}
