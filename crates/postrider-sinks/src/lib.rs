//! Destinations for Postrider: one folder and one feature each.
//!
//! | feature | sink | acknowledges when |
//! |---|---|---|
//! | `null` | [`Null`] | at once |
//! | `stdout` | [`Stdout`] | the operating system has the bytes |
//! | `file` | [`File`](file::File) | the disk has the bytes |
//! | `kafka` | `kafka::Kafka` | all replicas in sync have the record |
//! | `webhook` | `webhook::Webhook` | the endpoint answered 2xx |
//!
//! The feature `webhook-verify` has what the receiver of a webhook needs, without an HTTP client.

#[cfg(feature = "file")]
pub mod file;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(any(feature = "file", feature = "stdout"))]
mod json_lines;
#[cfg(feature = "null")]
mod null;
#[cfg(feature = "stdout")]
mod stdout;
#[cfg(feature = "webhook-verify")]
pub mod webhook;
#[cfg(any(feature = "file", feature = "stdout"))]
mod worker;

#[cfg(feature = "null")]
pub use null::Null;
#[cfg(feature = "stdout")]
pub use stdout::Stdout;
