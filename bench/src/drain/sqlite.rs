//! On a SQLite file.

use postrider::relay::Policy;

use super::{Drain, ROW_BY_ROW_EVENTS, rates};
use crate::recorder::Recording;
use crate::sqlite::Fixture;
use crate::workload::Workload;
use crate::{Error, Ratio, Report, Row, Spread};

/// Runs it on a new SQLite file. `progress` is called with each next step.
///
/// # Errors
/// An error of SQLite or the relay.
pub async fn sqlite(drain: Drain, progress: impl Fn(&str)) -> Result<Report, Error> {
    let title = format!("drain on SQLite: {}", drain.describe());
    let Drain { events, payload_bytes, keys, repetitions } = drain;
    progress(&format!("writing {events} events of {payload_bytes} bytes"));
    let fixture = Fixture::fill(&Workload { events, payload_bytes, keys })?;
    let policy = Policy::default();
    let (mut select, mut relay, mut recorded, mut handler, mut row_by_row, mut memory) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        select.push(fixture.select(policy.claim_events_max)?);
        let (usage, memory_bytes) = fixture.relay(&format!("bench-{run}"), events, policy.clone()).await?;
        relay.push(usage);
        memory.push(memory_bytes as f64 / (1024.0 * 1024.0));
        let recording = Recording::start()?;
        recorded.push(fixture.relay(&format!("metrics-{run}"), events, policy.clone()).await?.0);
        drop(recording);
        handler.push(fixture.handle(&format!("handler-{run}"), events).await?);
        row_by_row.push(fixture.row_by_row(ROW_BY_ROW_EVENTS, 100)?);
    }
    Ok(Report {
        title,
        rows: vec![
            Row::of_runs("paged SELECT (the limit)", events, &select),
            Row::of_runs("postrider to the null sink", events, &relay),
            Row::of_runs("postrider with metrics", events, &recorded),
            Row::of_runs("postrider to an empty handler", events, &handler),
            Row::of_runs("row by row (outbox_events)", ROW_BY_ROW_EVENTS, &row_by_row),
        ],
        ratios: vec![
            rates("postrider / paged SELECT", (&relay, events), (&select, events)),
            rates("with / without metrics", (&recorded, events), (&relay, events)),
            rates("handler / null sink", (&handler, events), (&relay, events)),
            rates("postrider / row by row", (&relay, events), (&row_by_row, ROW_BY_ROW_EVENTS)),
            Ratio { name: "memory above idle, MiB".to_owned(), spread: Spread::of(memory) },
        ],
    })
}
