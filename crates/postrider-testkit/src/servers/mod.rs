//! Real servers: private, on loopback, and removed when the test process ends.
//!
//! Tests only search for the programs; `xtask test` installs missing ones before the tests run. If a server cannot be
//! started on a machine, a line `SKIPPED: name: reason` is printed, and the tests that need it pass without it.

mod account;
pub mod apicurio;
mod certificate;
mod controlled;
pub mod debezium;
pub mod endpoint;
pub mod fake_registry;
pub mod kafka;
mod keeper;
pub mod mosquitto;
pub mod mysql;
pub mod pgbouncer;
pub mod nats;
mod python;
pub mod rabbitmq;
mod server_folder;
pub mod postgres;
pub mod redis;

pub use controlled::{Controlled, Copy};
pub use server_folder::{cache, free_port, skipped};
