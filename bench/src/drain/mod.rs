//! How fast a backlog is delivered, compared with the fastest way to read it and with the common slow way.

mod mysql;
mod postgres;
mod sqlite;

pub use mysql::mysql;
pub use postgres::postgres;
pub use sqlite::sqlite;

use crate::{Measure, Ratio, Spread, Usage};

/// What to measure and how often.
#[derive(Debug, Clone)]
pub struct Drain {
    /// Events in the backlog.
    pub events: u64,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Number of keys; 0: a separate key for every event.
    pub keys: u64,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

/// The row-by-row contender gets this many events: they are enough to show its rate.
const ROW_BY_ROW_EVENTS: u64 = 1_000;

impl Default for Drain {
    fn default() -> Self {
        Self { events: 200_000, payload_bytes: 340, keys: 0, repetitions: 5 }
    }
}

impl Drain {
    /// `200000 events of 340 bytes, a key each, 5 runs in turns`
    fn describe(&self) -> String {
        let Self { events, payload_bytes, keys, repetitions } = self;
        let keys = if *keys == 0 { "a key each".to_owned() } else { format!("{keys} keys") };
        format!("{events} events of {payload_bytes} bytes, {keys}, {repetitions} runs in turns")
    }
}

/// Compares two contenders' rates, run by run.
pub(crate) fn rates(name: &str, one: (&[Usage], u64), other: (&[Usage], u64)) -> Ratio {
    let rate = |(usage, events): (&Usage, u64)| events as f64 / usage.wall.as_secs_f64().max(1e-9);
    let pairs = one.0.iter().zip(other.0);
    Ratio::of(name, pairs.map(|(a, b)| (rate((a, one.1)), rate((b, other.1)))))
}

/// A measure of plain values, one per run.
pub(crate) fn measure(name: &'static str, values: impl IntoIterator<Item = f64>) -> Measure {
    Measure { name, spread: Spread::of(values) }
}
