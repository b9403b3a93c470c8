//! Publishing without transactions.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use postrider::Result;
use postrider::sink::{Failure, Message, Outcome};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as ErrorCode};
use rdkafka::producer::Producer as _;

use super::config::KafkaConfig;
use super::delivery::{Deliveries, Delivery};
use super::error::{self, Meaning, meaning, not_opened};
use super::message::{invalid_topic, record};
use super::metadata::{TopicHealth, topic_health};
use super::producer::{Kind, Producer, settings};

/// Two producers without transactions: one that batches records, and one that sends a single record per request.
pub(super) struct Plain {
    batched: RenewableProducer,
    single: RenewableProducer,
}

impl Plain {
    pub(super) fn open(config: &KafkaConfig) -> Result<Self> {
        let renewed = |settings| RenewableProducer { settings, current: Mutex::new(None) };
        let (batched, single) = (settings(config, Kind::Plain)?, settings(config, Kind::SingleRecord)?);
        let plain = Self { batched: renewed(batched), single: renewed(single) };
        // Created now, so that invalid settings are reported at startup.
        plain.batched.get().map_err(|error| not_opened(&config.brokers, &error))?;
        Ok(plain)
    }

    pub(super) async fn publish(&self, batch: &[Message], topic: Option<&str>) -> Vec<Outcome> {
        let all: Vec<usize> = (0..batch.len()).collect();
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut together = Vec::new();
        for (at, reported) in send(&self.batched, batch, &all, topic).await.into_iter().enumerate() {
            if reported.is_err() {
                together.push(at);
            }
            outcomes.push(reported.unwrap_or(Outcome::Untried));
        }
        if !together.is_empty() {
            // The broker refused all of them because of one. Each has a different key, so they can be sent separately.
            let alone = send(&self.single, batch, &together, topic).await;
            for (at, reported) in together.into_iter().zip(alone) {
                outcomes[at] =
                    reported.unwrap_or_else(|code| error::outcome(topic_of(&batch[at], topic), code));
            }
        }
        outcomes
    }

    /// Drops the clients; messages that they still hold are purged.
    pub(super) fn close(&self) {
        self.batched.forget();
        self.single.forget();
    }
}

/// The topic a message goes to.
pub(super) fn topic_of<'a>(message: &'a Message, fixed: Option<&'a str>) -> &'a str {
    fixed.unwrap_or(&message.destination)
}

/// Passes these messages of the batch to the client, then waits for their delivery reports. `Err` is the code with
/// which the broker refused all records of a request.
async fn send(
    producers: &RenewableProducer,
    batch: &[Message],
    indices: &[usize],
    topic: Option<&str>,
) -> Vec<Result<Outcome, ErrorCode>> {
    let producer = match producers.get() {
        Ok(producer) => producer,
        Err(error) => {
            return vec![Ok(Outcome::Down(Failure::new(error.to_string()))); indices.len()];
        }
    };
    let Some(client) = producer.client() else { return Vec::new() };
    let error_count = client.context().error_count();
    let deliveries = Deliveries::of(indices.len());
    let mut wrong = BTreeMap::new();
    for (index, &at) in indices.iter().enumerate() {
        let (message, slot) = (&batch[at], deliveries.slot(index));
        let topic = topic_of(message, topic);
        if let Some(why) = invalid_topic(topic) {
            slot.fill(Delivery::Failed(ErrorCode::InvalidTopic));
            wrong.insert(index, why);
        } else if let Err((error, record)) = client.send(record(topic, message, slot)) {
            let code = error.rdkafka_error_code().unwrap_or(ErrorCode::InvalidArgument);
            record.delivery_opaque.fill(Delivery::Failed(code));
        }
    }
    let reported = deliveries.complete().await;
    let mut unknown = UnknownOutcomes { producer: &producer, error_count, topics: BTreeMap::new() };
    let mut outcomes = Vec::with_capacity(reported.len());
    for (index, (&at, delivery)) in indices.iter().zip(reported).enumerate() {
        let topic = topic_of(&batch[at], topic);
        outcomes.push(match delivery {
            Delivery::Written { partition, offset } => Ok(error::acknowledged(partition, offset)),
            Delivery::Failed(ErrorCode::InvalidTopic) if wrong.contains_key(&index) => {
                Ok(Outcome::Rejected(Failure::new(wrong.remove(&index).unwrap_or_default())))
            }
            Delivery::Failed(code) => match meaning(code) {
                Meaning::RefusedTogether => Err(code),
                Meaning::Unknown | Meaning::NotAllowedYet => Ok(unknown.outcome(topic, code).await),
                _ => Ok(error::outcome(topic, code)),
            },
        });
    }
    outcomes
}

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
}

/// A producer that is replaced after a fatal error.
struct RenewableProducer {
    settings: ClientConfig,
    current: Mutex<Option<Producer>>,
}

impl RenewableProducer {
    fn get(&self) -> Result<Producer, KafkaError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = current.as_ref().filter(|producer| !producer.is_broken()) {
            return Ok(producer.clone());
        }
        let made = Producer::make(&self.settings)?;
        *current = Some(made.clone());
        Ok(made)
    }

    fn forget(&self) {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
