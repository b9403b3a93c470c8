//! MQTT 5, through the crate `rumqttc-next`.
//!
//! 1. [`MqttConfig`] becomes the client's options.
//! 2. A message becomes a publish packet: topic, payload, content type, user properties.
//! 3. The messages of a key are sent one after the other, those of different keys at the same time.
//! 4. Each reason code of the broker becomes an outcome.
//!
//! A connection is used once: the client never repeats packets on a new one, because the relay does that.

mod client;
mod config;
mod connection;
mod error;
mod message;

pub use client::Mqtt;
pub use config::{MqttConfig, Qos, Tls};
pub use connection::Broker;
