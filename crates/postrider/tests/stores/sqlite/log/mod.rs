//! Outboxes in SQLite files.

mod conformance;
mod store;
#[cfg(feature = "sqlx-sqlite")]
mod write;
