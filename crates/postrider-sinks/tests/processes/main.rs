//! Relays as real processes on a real SQLite file and a real PostgreSQL server: killed, stopped and continued.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod examples;
mod kill;
#[cfg(unix)]
mod postgres;
#[cfg(unix)]
mod postgres_shop;
mod readme;
mod shop;
mod takeover;
