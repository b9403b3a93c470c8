//! Adopting a table: the same cases on every database that has its layout.

mod behind_proxy;
mod cases;
mod from_eventlog;
mod locked;
mod mysql;
mod network;
mod postgres;
mod refused;
mod server;
mod sqlite;
mod stage;
mod stopped;
mod to_log;
mod to_rows;
