//! Publishing without transactions.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use postrider::Result;
use postrider::sink::{Failure, Message, Outcome};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Answer};
use rdkafka::producer::Producer as _;

use super::config::KafkaConfig;
use super::delivery::{Deliveries, Delivery};
use super::error::{self, Meaning, meaning, not_opened};
use super::message::{record, wrong_topic};
use super::metadata::{TopicHealth, topic_health};
use super::producer::{Kind, Producer, settings};

/// Producers without transactions: the usual one, and one that sends each record by itself.
pub(super) struct Plain {
    usual: Renewed,
    apart: Renewed,
}

impl Plain {
    pub(super) fn open(config: &KafkaConfig) -> Result<Self> {
        let renewed = |settings| Renewed { settings, current: Mutex::new(None) };
        let (usual, apart) = (settings(config, Kind::Plain)?, settings(config, Kind::Apart)?);
        let plain = Self { usual: renewed(usual), apart: renewed(apart) };
        // Made now, so that unusable settings are reported at the start.
        plain.usual.get().map_err(|error| not_opened(&config.brokers, &error))?;
        Ok(plain)
    }

    pub(super) async fn publish(&self, batch: &[Message], topic: Option<&str>) -> Vec<Outcome> {
        let all: Vec<usize> = (0..batch.len()).collect();
        let mut outcomes = Vec::with_capacity(batch.len());
        let mut together = Vec::new();
        for (at, reported) in send(&self.usual, batch, &all, topic).await.into_iter().enumerate() {
            if reported.is_err() {
                together.push(at);
            }
            outcomes.push(reported.unwrap_or(Outcome::Untried));
        }
        if !together.is_empty() {
            // Refused for the sake of one of them, and each the only one of its key under way: now one by one.
            let alone = send(&self.apart, batch, &together, topic).await;
            for (at, reported) in together.into_iter().zip(alone) {
                outcomes[at] =
                    reported.unwrap_or_else(|answer| error::outcome(name(&batch[at], topic), answer));
            }
        }
        outcomes
    }

    /// Lets go of the clients; what they still hold is purged.
    pub(super) fn close(&self) {
        self.usual.forget();
        self.apart.forget();
    }
}

/// The topic a message goes to.
pub(super) fn name<'a>(message: &'a Message, fixed: Option<&'a str>) -> &'a str {
    fixed.unwrap_or(&message.destination)
}

/// Hands all of these to the client, then waits for what becomes of them. The error is an answer that refuses
/// what was sent together.
async fn send(
    producers: &Renewed,
    batch: &[Message],
    these: &[usize],
    topic: Option<&str>,
) -> Vec<Result<Outcome, Answer>> {
    let producer = match producers.get() {
        Ok(producer) => producer,
        Err(error) => {
            return vec![Ok(Outcome::Down(Failure::new(error.to_string()))); these.len()];
        }
    };
    let Some(client) = producer.client() else { return Vec::new() };
    let error_count = client.context().error_count();
    let deliveries = Deliveries::of(these.len());
    let mut wrong = BTreeMap::new();
    for (place, &at) in these.iter().enumerate() {
        let (message, place_of) = (&batch[at], deliveries.place(place));
        let topic = name(message, topic);
        if let Some(why) = wrong_topic(topic) {
            place_of.fill(Delivery::Not(Answer::InvalidTopic));
            wrong.insert(place, why);
        } else if let Err((error, record)) = client.send(record(topic, message, place_of)) {
            let answer = error.rdkafka_error_code().unwrap_or(Answer::InvalidArgument);
            record.delivery_opaque.fill(Delivery::Not(answer));
        }
    }
    let reported = deliveries.complete().await;
    let mut unknown = Unknown { producer: &producer, error_count, topics: BTreeMap::new() };
    let mut outcomes = Vec::with_capacity(reported.len());
    for (place, (&at, delivery)) in these.iter().zip(reported).enumerate() {
        let topic = name(&batch[at], topic);
        outcomes.push(match delivery {
            Delivery::Written { partition, offset } => Ok(error::acknowledged(partition, offset)),
            Delivery::Not(Answer::InvalidTopic) if wrong.contains_key(&place) => {
                Ok(Outcome::Rejected(Failure::new(wrong.remove(&place).unwrap_or_default())))
            }
            Delivery::Not(answer) => match meaning(answer) {
                Meaning::RefusedTogether => Err(answer),
                Meaning::Unknown | Meaning::NotAllowedYet => Ok(unknown.outcome(topic, answer).await),
                _ => Ok(error::outcome(topic, answer)),
            },
        });
    }
    outcomes
}

/// Judges messages that time ran out for, or whose topic was missing. Each topic is asked for once.
pub(super) struct Unknown<'a> {
    pub(super) producer: &'a Producer,
    /// Client errors that had occurred before the messages were sent.
    pub(super) error_count: u64,
    pub(super) topics: BTreeMap<String, TopicHealth>,
}

impl Unknown<'_> {
    pub(super) async fn outcome(&mut self, topic: &str, answer: Answer) -> Outcome {
        if !self.topics.contains_key(topic) {
            self.topics.insert(topic.to_owned(), topic_health(self.producer, topic).await);
        }
        let failure = |why: &str| Failure::new(format!("topic {topic}: {answer}: {why}"));
        let context = self.producer.client().map(|client| client.context());
        let failed_since = context.filter(|context| context.error_count() > self.error_count);
        match (self.topics.get(topic), failed_since) {
            (Some(TopicHealth::NotAllowed(answer)), _) => error::outcome(topic, *answer),
            // It was missing, and is there now, or the cluster cannot say: not sent.
            _ if meaning(answer) == Meaning::NotAllowedYet => match self.topics.get(topic) {
                Some(TopicHealth::Down(why)) => Outcome::Down(failure(why)),
                _ => Outcome::Retryable(failure("there now")),
            },
            (Some(TopicHealth::Down(why)), _) => Outcome::Ambiguous(failure(why).while_down()),
            // Well again, but not all the time.
            (_, Some(context)) => Outcome::Ambiguous(failure(&context.last_error()).while_down()),
            (_, None) => error::outcome(topic, answer),
        }
    }
}

/// A producer that is made again after an error it cannot recover from.
struct Renewed {
    settings: ClientConfig,
    current: Mutex<Option<Producer>>,
}

impl Renewed {
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
