//! Tables with a state per row in a real PostgreSQL server: one server for all tests, two schemas for each.

pub(crate) mod case;
mod conformance;
mod custom;
mod documents;
mod eventlog_plans;
mod foreign;
mod interference;
mod keys;
mod leases;
mod relay;
mod retention;
mod skip_locked;
mod tables;
mod write;
