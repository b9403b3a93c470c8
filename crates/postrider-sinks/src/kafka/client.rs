//! The sink.

use std::fmt;
use std::time::Duration;

use postrider::sink::{Capabilities, Destinations, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};

use super::config::KafkaConfig;
use super::plain::Plain;
use super::topics;
use super::transaction::Transactional;

/// The client looks by itself whether brokers are back, so a probe costs one record that waits.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Writes each message as a record to the topic its destination names.
///
/// - Acknowledged means that all replicas in sync have the record (`acks=all`); the receipt tells partition and offset.
/// - The key chooses the partition as Java's clients do. A message without a key goes to any.
/// - The client is idempotent: what it sends again by itself is there once. What the relay sends again, after an
///   ambiguous outcome or a crash, is there twice.
/// - A message that the broker refuses is rejected, and no other process with it. A topic that is missing, or that may
///   not be written to, is the message's failure and passes when an operator fixes it. Topics are created only if
///   [`KafkaConfig::create_topics`] names them.
/// - When time runs out the cluster is asked: if it is down, or was meanwhile, nothing counts against the message.
/// - With a transactional id each batch is a transaction, seen by `read_committed` readers as a whole or not at
///   all. A relay that lost its lease cannot write after another one has taken over.
pub struct Kafka {
    topic: Option<String>,
    mode: Mode,
    about: String,
}

enum Mode {
    Plain(Plain),
    Transactional(Box<Transactional>),
}

impl Kafka {
    /// Makes the client. It connects in the background, so a cluster that is down is no error; creating topics
    /// waits for the cluster, and blocks while it does.
    ///
    /// # Errors
    /// [`Code::SinkOpen`](postrider::Code::SinkOpen) for settings no client can be made of, and for a topic that
    /// cannot be created.
    pub fn open(config: &KafkaConfig) -> Result<Self> {
        topics::create(config)?;
        let mode = match config.transactional_id {
            None => Mode::Plain(Plain::open(config)?),
            Some(_) => Mode::Transactional(Box::new(Transactional::open(config)?)),
        };
        Ok(Self { topic: config.topic.clone(), mode, about: format!("{config:?}") })
    }
}

impl Sink for Kafka {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        let topic = self.topic.as_deref();
        match &self.mode {
            Mode::Plain(plain) => Box::pin(plain.publish(batch, topic)),
            Mode::Transactional(transactional) => Box::pin(transactional.publish(batch, topic)),
        }
    }

    fn take_over(&self, lease: Duration) -> BoxFuture<'_, Result<()>> {
        match &self.mode {
            Mode::Plain(_) => Box::pin(std::future::ready(Ok(()))),
            Mode::Transactional(transactional) => Box::pin(transactional.take_over(lease)),
        }
    }

    fn capabilities(&self) -> Capabilities {
        // Without transactions a record may be written although one of its key before it was not.
        let capabilities = match self.mode {
            Mode::Plain(_) => Capabilities::default(),
            Mode::Transactional(_) => Capabilities::PREFIX_SAFE,
        };
        let destinations = if self.topic.is_some() { Destinations::Fixed } else { Destinations::Names };
        capabilities.with_probe_max(PROBE_MAX).with_destinations(destinations)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        match &self.mode {
            Mode::Plain(plain) => {
                plain.close();
                Box::pin(std::future::ready(()))
            }
            Mode::Transactional(transactional) => Box::pin(transactional.close()),
        }
    }
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kafka").field(&self.about).finish()
    }
}
