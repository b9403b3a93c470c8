//! Tables with a state per row, on both servers.

pub(crate) mod case;
mod conformance;
mod custom;
mod documents;
mod eventlog_plans;
mod foreign;
mod peers;
mod relay;
mod skip_locked;
mod tables;
mod write;
