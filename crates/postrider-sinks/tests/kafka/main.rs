//! The Kafka sink against a real Kafka, which is read with a client in Python.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "another process gives no signal; durations are printed, not asserted"
)]

mod conformance;
mod outage;
mod refusals;
mod rows;
mod secure;
mod topic;
mod zombie;
