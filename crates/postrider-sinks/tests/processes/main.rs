//! Relays as real processes on a real SQLite file and on real PostgreSQL, MySQL and MariaDB servers: killed, stopped and
//! continued.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod examples;
mod kill;
mod readme;
#[cfg(unix)]
mod servers;
mod shop;
mod takeover;
