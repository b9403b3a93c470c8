//! Outboxes in a real PostgreSQL server: one server for all tests, a schema for each.
#![cfg(all(unix, feature = "postgres", feature = "sqlx-postgres"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

mod canary;
mod case;
mod conformance;
mod connection;
mod encoding;
mod altered;
mod failover;
mod guarded;
mod holes;
mod idle;
mod kept;
mod life;
mod pooled;
mod replaced;
mod retention;
mod rewritten;
mod roles;
mod schema;
mod sequence;
mod slow;
mod start;
mod wake;
mod write;
