//! Benchmarks of Postrider. Absolute figures depend on the machine and its load, so every run measures its
//! contenders in turns, on the same rows, in one process, and reports medians, spread and ratios.

pub mod actions;
pub mod drain;
pub mod encode;
pub mod growth;
pub mod latency;
pub mod layouts;
#[cfg(any(feature = "kafka", feature = "mqtt", feature = "redis"))]
pub mod publish;
pub mod write;

mod carry;
#[cfg(any(feature = "kafka", feature = "mqtt", feature = "redis"))]
mod counted;
#[cfg(feature = "kafka")]
mod kafka;
mod machine;
mod memory;
#[cfg(feature = "mqtt")]
mod mqtt;
mod mysql;
mod plot;
mod postgres;
mod recorder;
#[cfg(any(feature = "kafka", feature = "mqtt", feature = "redis"))]
mod records;
#[cfg(feature = "redis")]
mod redis;
mod report;
mod sqlite;
mod wire;
mod workload;

pub use machine::Usage;
pub use report::{Measure, Ratio, Report, Row, Spread};

/// What can go wrong in a benchmark.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
