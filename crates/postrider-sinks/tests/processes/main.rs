//! Relays as real processes on a real SQLite file and on real PostgreSQL, MySQL and MariaDB servers: killed, suspended
//! and resumed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(
    clippy::print_stdout,
    reason = "clippy sees only the tests themselves as tests, not the cases they share"
)]

mod examples;
mod kill;
mod readme;
#[cfg(unix)]
mod servers;
mod shop;
mod takeover;
