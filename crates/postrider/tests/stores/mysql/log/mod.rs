//! Outboxes in real MySQL and MariaDB servers: one server of each for all tests, a database for each case.

mod blind;
pub(crate) mod case;
mod chosen;
mod conformance;
mod connection;
mod emitted;
mod engine;
mod holes;
mod replaced;
mod roles;
mod server_faults;
mod start;
mod unsettled;
mod views;
