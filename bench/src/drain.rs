//! How fast a backlog drains, beside the fastest way to read it at all and the slowest way people do it.

use std::fmt;

use postrider::relay::Policy;
use serde::Serialize;

use crate::sqlite::Fixture;
use crate::{Error, Figure, Spread};

/// What to drain and how often.
#[derive(Debug, Clone, Serialize)]
pub struct Drain {
    /// Events in the backlog.
    pub events: u64,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Different keys; 0: every event has its own.
    pub keys: u64,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
    /// Events the row-by-row contender gets: it needs not a million to show its rate.
    pub row_by_row_events: u64,
}

impl Default for Drain {
    fn default() -> Self {
        Self { events: 200_000, payload_bytes: 340, keys: 0, repetitions: 5, row_by_row_events: 1_000 }
    }
}

/// What a drain showed.
#[derive(Debug, Clone, Serialize)]
pub struct Drained {
    /// What was asked.
    pub drain: Drain,
    /// The contenders: paged SELECT, Postrider, row by row.
    pub figures: Vec<Figure>,
    /// Postrider's rate as a share of the paged SELECT's, run by run.
    pub ratio_to_select: Spread,
    /// Postrider's rate as a multiple of the row-by-row protocol's.
    pub ratio_to_row_by_row: Spread,
    /// Memory Postrider took at most, beyond the idle process, in MiB.
    pub memory_mib: f64,
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Drain { events, payload_bytes, keys, repetitions, .. } = self.drain;
        let keys = if keys == 0 { "a key each".to_owned() } else { format!("{keys} keys") };
        writeln!(
            f,
            "drain: {events} events of {payload_bytes} bytes, {keys}, median of {repetitions} runs in turns"
        )?;
        writeln!(
            f,
            "{:<28} {:>10} {:>21} {:>10} {:>14}",
            "", "events/s", "min..max", "CPU us/ev", "written B/ev"
        )?;
        for figure in &self.figures {
            let Spread { median, min, max } = figure.events_per_second;
            let range = format!("{min:.0}..{max:.0}");
            let (cpu, written) = (figure.cpu_us_per_event.median, figure.written_bytes_per_event.median);
            writeln!(f, "{:<28} {median:>10.0} {range:>21} {cpu:>10.2} {written:>14.1}", figure.name)?;
        }
        let Spread { median, min, max } = self.ratio_to_select;
        writeln!(f, "postrider / paged SELECT     {median:>10.2} {:>21}", format!("{min:.2}..{max:.2}"))?;
        let Spread { median, min, max } = self.ratio_to_row_by_row;
        writeln!(f, "postrider / row by row       {median:>10.0} {:>21}", format!("{min:.0}..{max:.0}"))?;
        write!(f, "memory above idle, MiB       {:>10.1}", self.memory_mib)
    }
}

/// Runs a drain on a fresh SQLite file. `progress` is told what happens next.
///
/// # Errors
/// What SQLite or the relay says.
pub async fn sqlite(drain: Drain, progress: impl Fn(&str)) -> Result<Drained, Error> {
    progress(&format!("writing {} events of {} bytes", drain.events, drain.payload_bytes));
    let fixture = Fixture::fill(&drain)?;
    let policy = Policy::default();
    let (mut select, mut relay, mut row_by_row) = (Vec::new(), Vec::new(), Vec::new());
    let mut memory_bytes = 0;
    for run in 1..=drain.repetitions {
        progress(&format!("run {run} of {}", drain.repetitions));
        select.push(fixture.select(policy.claim_events_max)?);
        let (usage, memory) = fixture.relay(&format!("bench-{run}"), drain.events, policy.clone()).await?;
        relay.push(usage);
        memory_bytes = memory_bytes.max(memory);
        row_by_row.push(fixture.row_by_row(drain.row_by_row_events, 100)?);
    }
    let seconds = |usage: &crate::Usage, events: u64| events as f64 / usage.wall.as_secs_f64().max(1e-9);
    let pairs = select.iter().zip(&relay).zip(&row_by_row);
    let (to_select, to_row) = pairs
        .map(|((s, r), w)| {
            let rate = seconds(r, drain.events);
            (rate / seconds(s, drain.events), rate / seconds(w, drain.row_by_row_events))
        })
        .unzip();
    Ok(Drained {
        figures: vec![
            Figure::of("paged SELECT (the limit)", drain.events, &select),
            Figure::of("postrider to the null sink", drain.events, &relay),
            Figure::of("row by row (seed 004)", drain.row_by_row_events, &row_by_row),
        ],
        ratio_to_select: Spread::of(to_select),
        ratio_to_row_by_row: Spread::of(to_row),
        memory_mib: memory_bytes as f64 / (1024.0 * 1024.0),
        drain,
    })
}
