//! RabbitMQ, over AMQP 0-9-1.
//!
//! 1. [`RabbitMqConfig`] becomes a connection. If it is lost, the next batch opens another one.
//! 2. A message becomes a persistent, mandatory publish: exchange, routing key, properties, body.
//! 3. The messages of a batch are sent on a channel that no other batch uses, with one message per key at a time.
//! 4. Each publisher confirm becomes an outcome. A returned message is rejected, although the broker confirms it too.

mod client;
mod config;
mod durability;
mod error;
mod message;
mod session;
mod wave;

pub use client::RabbitMq;
pub use config::{ExchangeType, Login, NewQueue, RabbitMqConfig, Tls};
pub use durability::{Durability, Inspection};
