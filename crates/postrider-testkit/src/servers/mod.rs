//! Real servers for real promises: private, on loopback, gone with the process that asked for them.
//!
//! Tests only search for the programs; `xtask test` installs what is missing before they run. A server that
//! cannot be had on a machine is named on a line `SKIPPED: name: reason`, and the tests that need it pass
//! without it.

mod account;
mod certificate;
mod controlled;
pub mod debezium;
pub mod endpoint;
pub mod kafka;
mod keeper;
pub mod mysql;
pub mod pgbouncer;
mod place;
pub mod postgres;

pub use controlled::{Controlled, Copy};
pub use place::{cache, free_port, skipped};
