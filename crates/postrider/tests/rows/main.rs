//! Tables of other people's layouts in a real PostgreSQL server: one server for all tests, schemas for each.
#![cfg(all(unix, feature = "postgres", feature = "sqlx-postgres"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

mod arrivals;
mod case;
mod conformance;
mod custom;
mod documents;
mod foreign;
mod keys;
mod leases;
mod life;
mod relay;
mod retention;
mod sink;
mod skip_locked;
mod tables;
mod write;
