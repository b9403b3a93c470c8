//! Real servers for real promises: private, on loopback, gone with the process that asked for them.
//!
//! A server that cannot be had on a machine is named on a line `SKIPPED: name: reason`, and the tests that
//! need it pass without it.

pub mod kafka;
pub mod postgres;
