//! Redis Streams, through the crate `redis`.
//!
//! 1. [`RedisConfig`] becomes the client's settings.
//! 2. A message becomes the fields of a stream entry: key, body, headers.
//! 3. A part of the batch becomes one script with an `XADD` per message, which stops a key at its first error.
//! 4. Each reply of the script becomes an outcome.
//!
//! With fencing, the script first compares a token, so that a relay that lost its lease adds nothing.

mod client;
mod config;
mod connection;
mod error;
mod message;
mod script;
mod server;

pub use client::Redis;
pub use config::{RedisConfig, Replicas, Tls};
pub use server::{Server, Weakness};
