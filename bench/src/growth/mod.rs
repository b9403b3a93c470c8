//! Whether throughput stays the same as the table grows: the same backlog after few and after many delivered events.

mod mysql;
mod postgres;
mod sqlite;

pub use mysql::mysql;
pub use postgres::postgres;
pub use sqlite::sqlite;

/// How many delivered events precede the backlog.
#[derive(Debug, Clone)]
pub struct Growth {
    /// Delivered events in the small table.
    pub few: u64,
    /// Delivered events in the large table.
    pub many: u64,
    /// Undelivered events after them.
    pub backlog: u64,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Growth {
    fn default() -> Self {
        Self { few: 10_000, many: 500_000, backlog: 50_000, repetitions: 5 }
    }
}
