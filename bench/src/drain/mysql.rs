//! On a MySQL or MariaDB server.

use postrider::relay::Policy;

use super::{Drain, ROW_BY_ROW_EVENTS};
use crate::mysql::{Cost, Fixture, row};
use crate::workload::Workload;
use crate::{Error, Ratio, Report, Spread};

/// Runs it in a new database of a server. `server` is its name; `progress` is called with each next step.
///
/// # Errors
/// An error of the server or the relay.
pub async fn mysql(server: &str, url: &str, drain: Drain, progress: impl Fn(&str)) -> Result<Report, Error> {
    let title = format!("drain on {server}: {}", drain.describe());
    let Drain { events, payload_bytes, keys, repetitions } = drain;
    progress(&format!("writing {events} events of {payload_bytes} bytes"));
    let fixture = Fixture::fill(url, "drain", &Workload { events, payload_bytes, keys }).await?;
    let batch = Policy::default().claim_events_max;
    let few = events.min(ROW_BY_ROW_EVENTS);
    let (mut select, mut relay, mut handler, mut row_by_row, mut memory) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        select.push(fixture.select(batch).await?);
        let (cost, memory_bytes) = fixture.relay(&format!("bench-{run}"), 1, events).await?;
        relay.push(cost);
        memory.push(memory_bytes as f64 / (1024.0 * 1024.0));
        handler.push(fixture.handle(&format!("handler-{run}"), events).await?);
        row_by_row.push(fixture.row_by_row(few, 100).await?);
    }
    fixture.close().await?;
    Ok(Report {
        title,
        rows: vec![
            row("paged SELECT (the limit)", events, &select),
            row("postrider to the null sink", events, &relay),
            row("postrider to an empty handler", events, &handler),
            row("row by row (outbox_events)", few, &row_by_row),
        ],
        ratios: vec![
            rates("postrider / paged SELECT", (&relay, events), (&select, events)),
            rates("handler / null sink", (&handler, events), (&relay, events)),
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
