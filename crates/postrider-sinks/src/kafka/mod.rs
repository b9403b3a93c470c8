//! Apache Kafka, through librdkafka.
//!
//! 1. [`KafkaConfig`] becomes the client's settings.
//! 2. A message becomes a record: topic, key, value, headers.
//! 3. The batch is passed to the client, and the sink waits for its delivery reports.
//! 4. Each delivery report becomes an outcome. After a timeout, the sink asks the cluster for the state of the topic.
//!
//! With a transactional id a batch is one transaction, and the broker fences a relay that lost its lease.

mod alone;
mod attempt;
mod client;
mod config;
mod confirmed;
mod delivery;
mod error;
mod message;
mod metadata;
mod pending;
mod plain;
mod producer;
mod renewable;
mod split;
mod topics;
mod transaction;
mod unknown;

pub use client::Kafka;
pub use config::{Compression, KafkaConfig, NewTopic, Sasl, Tls};
