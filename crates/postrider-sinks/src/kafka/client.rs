//! The sink.

use std::fmt;
use std::time::Duration;

use postrider::sink::{Capabilities, Destinations, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};

use super::config::KafkaConfig;
use super::metadata;
use super::plain::Plain;
use super::topics;
use super::transaction::Transactional;

/// The client reconnects to brokers by itself, so a probe costs only one waiting record.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Writes each message as a record to the topic that its destination names.
///
/// - Acknowledged means that all in-sync replicas have the record (`acks=all`); the receipt contains partition and
///   offset.
/// - The key selects the partition, with the same hash as Java clients. A message without a key goes to any partition.
/// - The producer is idempotent: retries of the client do not create duplicates. Retries of the relay after a crash do.
/// - A batch may contain many messages of a key. After one that was not written, no later one of its key is written.
/// - While the cluster is down, the client keeps the messages that it may have sent. The relay's retries wait for them
///   and do not send them again.
/// - A message that the broker refuses is rejected, without effect on messages of other keys. If the topic does not exist or
///   must not be written to, the message fails and is retried; an operator has to fix it. Topics are created only if
///   [`KafkaConfig::create_topics`] lists them.
/// - After a timeout the sink asks the cluster: if it is down, or was down in between, the failure does not count as an
///   attempt of the message.
/// - With a transactional id each batch is a transaction, which `read_committed` readers see completely or not at all.
///   A relay that lost its lease cannot write after another one has taken over.
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
    /// Creates the client. It connects in the background, so a cluster that is down is not an error here. If there are
    /// topics to create, this blocks until the cluster has created them.
    ///
    /// # Errors
    /// [`Code::SinkOpen`](postrider::Code::SinkOpen) for invalid settings, and for a topic that cannot be created.
    pub fn open(config: &KafkaConfig) -> Result<Self> {
        topics::create(config)?;
        let mode = match config.transactional_id {
            None => Mode::Plain(Plain::open(config)?),
            Some(_) => Mode::Transactional(Box::new(Transactional::open(config)?)),
        };
        Ok(Self { topic: config.topic.clone(), mode, about: format!("{config:?}") })
    }

    /// Logs in at the cluster and asks for the topic of the configuration: why it cannot be written to, if it cannot.
    /// Writes nothing and creates nothing; a topic that [`KafkaConfig::create_topics`] lists may be missing. `None`
    /// without a topic.
    ///
    /// # Errors
    /// [`Code::SinkOpen`](postrider::Code::SinkOpen) for invalid settings.
    pub async fn problem(config: &KafkaConfig) -> Result<Option<String>> {
        metadata::problem(config).await
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
            Mode::Plain(plain) => {
                plain.take_over();
                Box::pin(std::future::ready(Ok(())))
            }
            Mode::Transactional(transactional) => Box::pin(transactional.take_over(lease)),
        }
    }

    fn capabilities(&self) -> Capabilities {
        let destinations = if self.topic.is_some() { Destinations::Fixed } else { Destinations::Names };
        Capabilities::PREFIX_SAFE.with_probe_max(PROBE_MAX).with_destinations(destinations)
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
