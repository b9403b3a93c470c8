//! The Kafka sink against a real Kafka, which is read with a client in Python.
#![cfg(unix)]
#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "processes give no signal; times are only printed")]

mod conformance;
mod hot_keys;
mod outage;
mod refusals;
mod rows;
mod secure;
mod topic;
mod zombie;
