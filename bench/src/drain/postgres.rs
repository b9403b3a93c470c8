//! On a PostgreSQL server.

use postrider::relay::Policy;

use super::{Drain, ROW_BY_ROW_EVENTS};
use crate::postgres::{Cost, Fixture, row};
use crate::recorder::Recording;
use crate::workload::Workload;
use crate::{Error, Ratio, Report, Spread};

/// The contender with SKIP LOCKED gets at most this many events.
const SKIP_LOCKED_EVENTS_MAX: u64 = 100_000;

/// Runs it in a new schema of a server. `progress` is called with each next step.
///
/// # Errors
/// An error of the server or the relay.
pub async fn postgres(url: &str, drain: Drain, progress: impl Fn(&str)) -> Result<Report, Error> {
    let title = format!("drain on PostgreSQL: {}", drain.describe());
    let Drain { events, payload_bytes, keys, repetitions } = drain;
    progress(&format!("writing {events} events of {payload_bytes} bytes"));
    let fixture = Fixture::fill(url, "drain", &Workload { events, payload_bytes, keys }).await?;
    let batch = Policy::default().claim_events_max;
    let some = events.min(SKIP_LOCKED_EVENTS_MAX);
    let few = events.min(ROW_BY_ROW_EVENTS);
    let (mut select, mut relay, mut recorded, mut old_snapshot, mut handler) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut skip_locked, mut row_by_row, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        select.push(fixture.select(batch).await?);
        let (cost, memory_bytes) = fixture.relay(&format!("bench-{run}"), 1, events).await?;
        relay.push(cost);
        memory.push(memory_bytes as f64 / (1024.0 * 1024.0));
        let recording = Recording::start()?;
        recorded.push(fixture.relay(&format!("metrics-{run}"), 1, events).await?.0);
        drop(recording);
        old_snapshot.push(fixture.relay_next_to_an_old_snapshot(&format!("old-{run}"), events).await?);
        handler.push(fixture.handle(&format!("handler-{run}"), events).await?);
        skip_locked.push(fixture.skip_locked(some, batch).await?);
        row_by_row.push(fixture.row_by_row(few, 100).await?);
    }
    fixture.close().await?;
    Ok(Report {
        title,
        rows: vec![
            row("paged SELECT (the limit)", events, &select),
            row("postrider to the null sink", events, &relay),
            row("postrider with metrics", events, &recorded),
            row("postrider next to an old snapshot", events, &old_snapshot),
            row("postrider to an empty handler", events, &handler),
            row("SKIP LOCKED + UPDATE", some, &skip_locked),
            row("row by row (outbox_events)", few, &row_by_row),
        ],
        ratios: vec![
            rates("postrider / paged SELECT", (&relay, events), (&select, events)),
            rates("with / without metrics", (&recorded, events), (&relay, events)),
            rates("with / without an old snapshot", (&old_snapshot, events), (&relay, events)),
            rates("handler / null sink", (&handler, events), (&relay, events)),
            rates("postrider / SKIP LOCKED + UPDATE", (&relay, events), (&skip_locked, some)),
            rates("postrider / row by row", (&relay, events), (&row_by_row, few)),
            Ratio { name: "memory above idle, MiB".to_owned(), spread: Spread::of(memory) },
        ],
    })
}

/// Compares two contenders' rates, run by run.
fn rates(name: &str, one: (&[Cost], u64), other: (&[Cost], u64)) -> Ratio {
    let here = |runs: &[Cost]| runs.iter().map(|run| run.here).collect::<Vec<_>>();
    super::rates(name, (&here(one.0), one.1), (&here(other.0), other.1))
}
