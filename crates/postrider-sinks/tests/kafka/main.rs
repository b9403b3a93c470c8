//! The Kafka sink against a real Kafka, looked at with a client in Python.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod conformance;
mod outage;
mod refusals;
mod secure;
mod world;
mod zombie;
