//! NATS JetStream.
//!
//! 1. [`NatsConfig`] becomes a client, which reconnects by itself.
//! 2. A message becomes a publish to a subject of one stream: headers, message id, body.
//! 3. The messages of a batch are sent with one message per key at a time.
//! 4. The acknowledgement of each, with its sequence in the stream, becomes its outcome.

mod client;
mod config;
mod durability;
mod error;
mod message;
mod session;
mod wave;

pub use client::Nats;
pub use config::{Login, NatsConfig, NewStream, Tls};
pub use durability::{Inspection, Storage, StreamFacts};
