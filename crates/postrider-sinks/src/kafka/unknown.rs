//! The outcome of messages without an answer.

use std::collections::BTreeMap;

use postrider::sink::{Failure, Outcome};
use rdkafka::error::RDKafkaErrorCode as ErrorCode;
use rdkafka::producer::Producer as _;

use super::error::{self, Meaning, meaning};
use super::metadata::{TopicHealth, topic_health};
use super::producer::Producer;

/// Decides the outcome of messages that timed out or whose topic was missing. Requests the state of each topic once.
pub(super) struct UnknownOutcomes<'a> {
    pub(super) producer: &'a Producer,
    /// The client's error count before the messages were sent.
    pub(super) error_count: u64,
    pub(super) topics: BTreeMap<String, TopicHealth>,
}

impl UnknownOutcomes<'_> {
    pub(super) async fn outcome(&mut self, topic: &str, code: ErrorCode) -> Outcome {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), topic_health(self.producer, topic).await);
        }
        let failure = |why: &str| Failure::new(format!("topic {topic}: {code}: {why}"));
        let context = self.producer.client().map(|client| client.context());
        let failed_since = context.filter(|context| context.error_count() > self.error_count);
        match (self.topics.get(topic), failed_since) {
            (Some(TopicHealth::NotAllowed(code)), _) => error::outcome(topic, *code),
            (Some(TopicHealth::Up), _) if code == ErrorCode::TopicAuthorizationFailed => {
                error::outcome(topic, code)
            }
            // The topic was missing, so nothing was sent. It may exist now, or the cluster does not respond.
            _ if meaning(code) == Meaning::NotAllowedYet => match self.topics.get(topic) {
                Some(TopicHealth::Down(why)) => Outcome::Down(failure(why)),
                _ => Outcome::Retryable(failure("the topic exists now")),
            },
            (Some(TopicHealth::Down(why)), _) => Outcome::Ambiguous(failure(why).while_down()),
            // The cluster is up now, but was down in between.
            (_, Some(context)) => Outcome::Ambiguous(failure(&context.last_error()).while_down()),
            (_, None) => error::outcome(topic, code),
        }
    }

    /// Whether a message that the client purged from its queue may have been sent before: the connection was lost, or
    /// the sink has given the client up.
    pub(super) fn may_have_been_sent(&self) -> bool {
        let context = self.producer.client().map(|client| client.context());
        context.is_none_or(|context| context.is_given_up() || context.error_count() > self.error_count)
    }
}
