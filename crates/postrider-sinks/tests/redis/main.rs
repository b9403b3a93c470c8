//! The Redis sink against a real Redis, which is read with a client in Python.
#![cfg(unix)]
#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "processes give no signal; times are only printed")]

mod conformance;
mod fence;
mod outage;
mod refusals;
mod replicas;
mod secure;
mod server;
mod stream;
