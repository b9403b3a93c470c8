//! Outboxes in a real PostgreSQL server: one server for all tests, a schema for each.

mod altered;
mod canary;
pub(crate) mod case;
mod conformance;
mod connection;
mod encoding;
mod event_types_sink;
mod failover;
mod guarded;
mod holes;
mod idle;
mod outbox;
mod pooled;
mod replaced;
mod retention;
mod rewritten;
mod roles;
mod schema;
mod sequence;
mod server_faults;
mod slow;
mod start;
mod wake;
mod write;
