//! A table with a state per row in a SQLite file: seed 004.

mod case;
mod conformance;
mod custom;
mod foreign;
mod peers;
mod relay;
mod retention;
mod tables;
mod write;
