//! Time from commit to acknowledgement, at a steady rate that does not depend on the relay.

mod mysql;
mod postgres;
mod sqlite;
mod waits;

pub use mysql::mysql;
pub use postgres::postgres;
#[cfg(feature = "kafka")]
pub use postgres::postgres_to_kafka;
pub use sqlite::sqlite;

use std::time::Duration;

/// Rate and duration.
#[derive(Debug, Clone)]
pub struct Latency {
    /// Transactions of one event per second.
    pub rate: u32,
    /// Seconds per run.
    pub seconds: u32,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Latency {
    fn default() -> Self {
        Self { rate: 200, seconds: 5, repetitions: 3 }
    }
}

impl Latency {
    /// Transactions per run.
    fn count(&self) -> u64 {
        u64::from(self.rate) * u64::from(self.seconds)
    }

    /// Time from one transaction to the next.
    fn interval(&self) -> Duration {
        Duration::from_secs(1) / self.rate.max(1)
    }

    fn describe(&self) -> String {
        let Self { rate, seconds, repetitions } = self;
        format!("{rate}/s for {seconds} s, {repetitions} runs in turns")
    }
}
