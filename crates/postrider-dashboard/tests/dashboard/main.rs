//! The dashboard over HTTP, as a browser uses it, on SQLite and PostgreSQL.
#![cfg(test)]

mod changes;
mod client;
mod lists;
mod many;
mod outbox;
mod pages;
mod routes;
mod secrets;
