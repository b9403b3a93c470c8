//! On a SQLite file.

use postrider::relay::Policy;

use super::Growth;
use crate::drain::rates;
use crate::sqlite::Fixture;
use crate::workload::Workload;
use crate::{Error, Report, Row};

/// Runs it on two new SQLite files.
///
/// # Errors
/// An error of SQLite or the relay.
pub async fn sqlite(growth: Growth, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Growth { few, many, backlog, repetitions } = growth;
    progress(&format!("writing {few} and {many} events"));
    let fill = |delivered: u64| {
        Fixture::fill(&Workload { events: delivered + backlog, payload_bytes: 340, keys: 0 })
    };
    let (small, large) = (fill(few)?, fill(many)?);
    let (mut in_small, mut in_large) = (Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        let name = format!("bench-{run}");
        in_small.push(small.relay_from(&name, few + 1, backlog, Policy::default()).await?.0);
        in_large.push(large.relay_from(&name, many + 1, backlog, Policy::default()).await?.0);
    }
    Ok(Report {
        title: format!(
            "growth on SQLite: {backlog} events behind {few} and {many} delivered ones, {repetitions} runs in turns"
        ),
        rows: vec![
            Row::of_runs(&format!("behind {few}"), backlog, &in_small),
            Row::of_runs(&format!("behind {many}"), backlog, &in_large),
        ],
        ratios: vec![rates("rate: many / few", (&in_large, backlog), (&in_small, backlog))],
    })
}
