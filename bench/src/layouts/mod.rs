//! How fast a backlog of each layout with a state per row goes, beside the row-by-row protocol of its seed.

mod mysql;
mod postgres;
mod sqlite;

pub use mysql::mysql;
pub use postgres::postgres;
pub use sqlite::sqlite;

/// What to measure and how often.
#[derive(Debug, Clone)]
pub struct Layouts {
    /// Rows in the backlog.
    pub rows: u64,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Layouts {
    fn default() -> Self {
        Self { rows: 100_000, payload_bytes: 340, repetitions: 3 }
    }
}

/// The row-by-row contender works on the same backlog and stops after this many rows: it needs not all to show its rate.
const ROW_BY_ROW_ROWS: u64 = 1_000;

/// Rows a row-by-row publisher asks for at once.
const PAGE_ROWS: u32 = 100;
