//! The RabbitMQ sink against a real RabbitMQ, which is read with a client in Python.
#![cfg(unix)]
#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "processes give no signal; times are only printed")]

mod conformance;
mod inspection;
mod outage;
mod queue;
mod refusals;
mod secure;
