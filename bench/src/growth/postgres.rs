//! On a PostgreSQL server.

use super::Growth;
use crate::drain::{measure, rates};
use crate::postgres::{ClaimCost, Cost, Fixture};
use crate::{Error, Report, Row, Usage};

/// Number of claims over which the pages read are counted.
const CLAIMS: u32 = 100;

/// Runs it in two new schemas of a server. In addition to the rates, it counts the pages that a claim reads.
///
/// # Errors
/// An error of the server or the relay.
pub async fn postgres(url: &str, growth: Growth, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Growth { few, many, backlog, repetitions } = growth;
    progress(&format!("writing {few} and {many} events"));
    let small = Fixture::generate(url, "few", few + backlog).await?;
    let large = Fixture::generate(url, "many", many + backlog).await?;
    let (mut in_small, mut in_large) = (Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        let name = format!("bench-{run}");
        in_small.push(small.relay(&name, few + 1, backlog).await?.0);
        in_large.push(large.relay(&name, many + 1, backlog).await?.0);
    }
    progress("counting pages");
    let (idle_small, idle_large) =
        (small.claim_cost(few + backlog, CLAIMS).await?, large.claim_cost(many + backlog, CLAIMS).await?);
    let (busy_small, busy_large) = (small.claim_cost(few, 1).await?, large.claim_cost(many, 1).await?);
    small.close().await?;
    large.close().await?;
    let here = |runs: &[Cost]| -> Vec<Usage> { runs.iter().map(|run| run.here).collect() };
    let row = |delivered: u64, runs: &[Cost], idle: &ClaimCost, busy: &ClaimCost| Row {
        name: format!("behind {delivered}"),
        measures: vec![
            measure("events/s", runs.iter().map(|run| backlog as f64 / run.here.wall.as_secs_f64())),
            measure("pages/empty claim", [idle.pages_per_claim()]),
            measure("pages/first claim", [busy.pages_per_claim()]),
            measure("index scans/claim", [idle.index_scans_per_claim()]),
            measure("table scans", [(idle.table_scans + busy.table_scans) as f64]),
        ],
    };
    Ok(Report {
        title: format!(
            "growth on PostgreSQL: {backlog} events behind {few} and {many} delivered ones, {repetitions} runs in turns"
        ),
        rows: vec![
            row(few, &in_small, &idle_small, &busy_small),
            row(many, &in_large, &idle_large, &busy_large),
        ],
        ratios: vec![rates("rate: many / few", (&here(&in_large), backlog), (&here(&in_small), backlog))],
    })
}
