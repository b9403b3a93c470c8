//! A table with a state per row in a SQLite file: `outbox_events`.

mod case;
mod conformance;
mod custom;
mod foreign;
mod peers;
mod relay;
mod retention;
mod tables;
mod write;
