//! The cost of an event in the transaction that writes it.

mod mysql;
mod postgres;
mod sqlite;

pub use mysql::mysql;
pub use postgres::postgres;
pub use sqlite::sqlite;

/// How much to write.
#[derive(Debug, Clone)]
pub struct Write {
    /// Transactions per run, each with one business row and one event.
    pub transactions: u64,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Write {
    fn default() -> Self {
        Self { transactions: 2_000, payload_bytes: 340, repetitions: 5 }
    }
}
