//! The NATS sink against a real NATS with JetStream, which is read with a client in Python.
#![cfg(unix)]
#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "processes give no signal; times are only printed")]

mod conformance;
mod inspection;
mod outage;
mod refusals;
mod secure;
mod stream;
