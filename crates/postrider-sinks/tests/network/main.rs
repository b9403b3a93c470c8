//! Each sink under a relay, behind a network with every fault of the proxy.

#![cfg(unix)]
#![cfg(test)]
#![allow(clippy::disallowed_methods, reason = "processes give no signal; times are only printed")]

mod counted;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "mqtt")]
mod mqtt;
#[cfg(feature = "redis")]
mod redis;
mod shop;
mod through;
mod webhook;
