//! Destinations for Postrider: one folder and one feature each.
//!
//! | feature | sink | acknowledges when |
//! |---|---|---|
//! | `null` | [`Null`] | immediately |
//! | `stdout` | [`Stdout`] | the operating system has the bytes |
//! | `file` | [`File`](file::File) | the bytes are on disk |
//! | `kafka` | `kafka::Kafka` | all in-sync replicas have the record |
//! | `mqtt` | `mqtt::Mqtt` | the broker has confirmed the message |
//! | `redis` | `redis::Redis` | the primary has added the entry to the stream, and replicas if configured |
//! | `nats` | `nats::Nats` | the stream has stored the message |
//! | `rabbitmq` | `rabbitmq::RabbitMq` | every queue that takes the message has stored it |
//! | `webhook` | `webhook::Webhook` | the endpoint responded with 2xx |
//!
//! The feature `webhook-verify` contains what the receiver of a webhook needs, without an HTTP client.

#[cfg(any(feature = "mqtt", feature = "redis"))]
mod address;
#[cfg(feature = "file")]
pub mod file;
#[cfg(any(feature = "file", feature = "stdout"))]
mod json_lines;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "mqtt")]
pub mod mqtt;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "null")]
mod null;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(any(feature = "nats", feature = "rabbitmq"))]
mod shared_session;
#[cfg(feature = "stdout")]
mod stdout;
#[cfg(any(feature = "nats", feature = "rabbitmq"))]
mod waves;
#[cfg(feature = "webhook-verify")]
pub mod webhook;
#[cfg(any(feature = "file", feature = "stdout"))]
mod worker;

#[cfg(any(
    feature = "kafka",
    feature = "mqtt",
    feature = "nats",
    feature = "rabbitmq",
    feature = "redis",
    feature = "webhook"
))]
use postrider::__setters as setters;

#[cfg(feature = "null")]
pub use null::Null;
#[cfg(feature = "stdout")]
pub use stdout::Stdout;
