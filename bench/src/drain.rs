//! How fast a backlog drains, beside the fastest way to read it at all and the slowest way people do it.

use postrider::relay::Policy;

use crate::sqlite::{Filling, Fixture};
use crate::{Error, Measure, Ratio, Report, Row, Spread, Usage};

/// What to drain and how often.
#[derive(Debug, Clone)]
pub struct Drain {
    /// Events in the backlog.
    pub events: u64,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Different keys; 0: every event has its own.
    pub keys: u64,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Drain {
    fn default() -> Self {
        Self { events: 200_000, payload_bytes: 340, keys: 0, repetitions: 5 }
    }
}

/// Events the row-by-row contender gets: it needs not a million to show its rate.
const ROW_BY_ROW_EVENTS: u64 = 1_000;

/// Runs a drain on a fresh SQLite file. `progress` is told what happens next.
///
/// # Errors
/// What SQLite or the relay says.
pub async fn sqlite(drain: Drain, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Drain { events, payload_bytes, keys, repetitions } = drain;
    progress(&format!("writing {events} events of {payload_bytes} bytes"));
    let fixture = Fixture::fill(&Filling { events, payload_bytes, keys })?;
    let policy = Policy::default();
    let (mut select, mut relay, mut row_by_row, mut memory) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        select.push(fixture.select(policy.claim_events_max)?);
        let (usage, memory_bytes) = fixture.relay(&format!("bench-{run}"), events, policy.clone()).await?;
        relay.push(usage);
        memory.push(memory_bytes as f64 / (1024.0 * 1024.0));
        row_by_row.push(fixture.row_by_row(ROW_BY_ROW_EVENTS, 100)?);
    }
    let keys = if keys == 0 { "a key each".to_owned() } else { format!("{keys} keys") };
    Ok(Report {
        title: format!(
            "drain on SQLite: {events} events of {payload_bytes} bytes, {keys}, {repetitions} runs in turns"
        ),
        rows: vec![
            Row::of_runs("paged SELECT (the limit)", events, &select),
            Row::of_runs("postrider to the null sink", events, &relay),
            Row::of_runs("row by row (seed 004)", ROW_BY_ROW_EVENTS, &row_by_row),
        ],
        ratios: vec![
            rates("postrider / paged SELECT", (&relay, events), (&select, events)),
            rates("postrider / row by row", (&relay, events), (&row_by_row, ROW_BY_ROW_EVENTS)),
            Ratio { name: "memory above idle, MiB".to_owned(), spread: Spread::of(memory) },
        ],
    })
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
