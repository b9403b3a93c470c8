//! The relay as a program embeds it, on a real SQLite file.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod delivery;
mod failures;
mod handle;
mod handler_transactions;
mod handlers;
mod operator;
mod retention;
mod routing;
mod shop;
mod spans;
