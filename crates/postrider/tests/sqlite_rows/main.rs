//! A table with a state per row in a SQLite file: seed 004.
#![cfg(feature = "sqlite")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

#[path = "../rows/anywhere.rs"]
mod anywhere;
#[path = "../rows/arrivals.rs"]
mod arrivals;
mod case;
mod conformance;
mod custom;
mod foreign;
mod peers;
mod relay;
mod retention;
#[path = "../rows/sink.rs"]
mod sink;
mod tables;
mod write;
