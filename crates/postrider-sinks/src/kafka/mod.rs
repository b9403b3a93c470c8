//! Apache Kafka, by librdkafka.
//!
//! 1. [`KafkaConfig`] becomes the client's settings
//! 2. a message becomes a record: topic, key, value, headers
//! 3. a whole batch is handed to the client, then its deliveries are waited for
//! 4. what the client says of each becomes an outcome; where it says only that time ran out, the cluster is asked
//!
//! With a transactional id a batch is one transaction, and the broker itself shuts out a relay that lost its lease.

mod client;
mod config;
mod delivery;
mod error;
mod message;
mod metadata;
mod plain;
mod producer;
mod share;
mod topics;
mod transaction;

pub use client::Kafka;
pub use config::{Compression, KafkaConfig, NewTopic, Sasl, Tls};
