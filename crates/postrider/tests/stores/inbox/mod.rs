//! The inbox on every database: an effect happens once per consumer group, however often its event is delivered.
//!
//! - `case`: what a database implements for the cases
//! - `cases`: the list of the cases, which are in `once`, `crash`, `expiry` and `names`
//! - `processed_events`: the table of layout `outbox`, on PostgreSQL
//! - `relay`: the cleanup of a relay

mod case;
mod cases;
mod crash;
mod expiry;
mod mysql;
mod names;
mod once;
mod postgres;
mod processed_events;
mod relay;
mod sqlite;
