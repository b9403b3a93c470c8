//! Outboxes in a real PostgreSQL server: one server for all tests, a schema for each.

mod canary;
pub(crate) mod case;
mod conformance;
mod connection;
mod encoding;
mod altered;
mod failover;
mod guarded;
mod holes;
mod idle;
mod event_types_sink;
mod outbox;
mod server_faults;
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
