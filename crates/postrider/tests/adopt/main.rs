//! Adopting a table, on every database that has its layout: the same cases for all of them.
#![cfg(all(unix, feature = "sqlite", feature = "postgres", feature = "mysql"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

mod back;
mod behind;
mod cases;
mod forth;
mod locked;
mod mysql;
mod network;
mod postgres;
mod refused;
#[path = "../rows/sink.rs"]
#[allow(dead_code, reason = "not all of it is needed here")]
mod sink;
mod sqlite;
mod stage;
mod stopped;
