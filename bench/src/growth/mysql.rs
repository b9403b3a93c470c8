//! On a MySQL or MariaDB server.

use super::Growth;
use crate::drain::rates;
use crate::mysql::{Cost, Fixture, row};
use crate::workload::Workload;
use crate::{Error, Report, Usage};

/// Runs it in two new databases of a server. `server` is its name.
///
/// # Errors
/// An error of the server or the relay.
pub async fn mysql(
    server: &str,
    url: &str,
    growth: Growth,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    let Growth { few, many, backlog, repetitions } = growth;
    progress(&format!("writing {few} and {many} events"));
    let workload = |delivered| Workload { events: delivered + backlog, payload_bytes: 340, keys: 0 };
    let small = Fixture::fill(url, "few", &workload(few)).await?;
    let large = Fixture::fill(url, "many", &workload(many)).await?;
    let (mut in_small, mut in_large) = (Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        let name = format!("bench-{run}");
        in_small.push(small.relay(&name, few + 1, backlog).await?.0);
        in_large.push(large.relay(&name, many + 1, backlog).await?.0);
    }
    small.close().await?;
    large.close().await?;
    let here = |runs: &[Cost]| -> Vec<Usage> { runs.iter().map(|run| run.here).collect() };
    Ok(Report {
        title: format!(
            "growth on {server}: {backlog} events behind {few} and {many} delivered ones, {repetitions} runs in turns"
        ),
        rows: vec![
            row(&format!("behind {few}"), backlog, &in_small),
            row(&format!("behind {many}"), backlog, &in_large),
        ],
        ratios: vec![rates("rate: many / few", (&here(&in_large), backlog), (&here(&in_small), backlog))],
    })
}
