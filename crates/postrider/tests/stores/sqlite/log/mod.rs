//! Outboxes in SQLite files.

mod conformance;
mod store;
mod views;
#[cfg(feature = "sqlx-sqlite")]
mod write;
