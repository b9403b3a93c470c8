//! Outboxes in real MySQL and MariaDB servers: one server of each for all tests, a database for each case.
#![cfg(all(unix, feature = "mysql"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

mod blind;
mod case;
mod chosen;
mod conformance;
mod connection;
mod engine;
mod holes;
mod life;
mod replaced;
mod roles;
mod start;
mod unsettled;
