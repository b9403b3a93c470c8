//! The relay as a program embeds it, on a real SQLite file.
#![cfg(feature = "sqlite")]
#![cfg(test)]

mod delivery;
mod failures;
mod handle;
mod handler_transactions;
mod handlers;
mod metrics;
mod operator;
mod pace;
mod panics;
mod retention;
mod routing;
#[cfg(feature = "schemas")]
mod schemas;
mod shop;
mod spans;
