//! How fast a backlog of each layout with a state per row is delivered, compared with its row-by-row protocol.

mod mysql;
mod postgres;
mod sqlite;

pub use mysql::mysql;
pub use postgres::postgres;
pub use sqlite::sqlite;

use std::time::Duration;

use postrider::layout::RowLayout;

use crate::drain::rates;
use crate::{Error, Ratio, Report, Row, Usage};

/// What to measure and how often.
#[derive(Debug, Clone)]
pub struct Layouts {
    /// Rows in the backlog.
    pub rows: u64,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Layouts {
    fn default() -> Self {
        Self { rows: 100_000, payload_bytes: 340, repetitions: 3 }
    }
}

/// The row-by-row contender works on the same backlog and stops after this many rows: they are enough to show its rate.
const ROW_BY_ROW_ROWS: u64 = 1_000;

/// Rows that a row-by-row publisher requests per query.
const PAGE_ROWS: u32 = 100;

/// A table of one layout in a new database, schema or file.
trait LayoutBench: Sized {
    /// The cost of a run.
    type Cost: RunCost;

    /// Replaces the rows with new ones, each with its own key.
    async fn fill(&mut self, rows: u64, payload_bytes: usize) -> Result<(), Error>;

    /// Publishes rows to nowhere and marks each, one after the other, with the statements of the layout: every
    /// statement is a transaction whose commit is awaited.
    async fn row_by_row(&mut self, rows: u64) -> Result<Self::Cost, Error>;

    /// Delivers all rows to the null sink with a relay.
    async fn relay(&mut self, rows: u64) -> Result<Self::Cost, Error>;

    /// Drops what was created.
    async fn close(self) -> Result<(), Error>;
}

/// The runs of both contenders on one layout.
struct Runs<C> {
    relay: Vec<C>,
    by_row: Vec<C>,
}

impl<C> Default for Runs<C> {
    fn default() -> Self {
        Self { relay: Vec::new(), by_row: Vec::new() }
    }
}

/// The cost of a run, as it is reported.
trait RunCost: Sized {
    /// The figures of a contender.
    fn row(name: &str, rows: u64, runs: &[Self]) -> Row;

    /// The cost of this process.
    fn here(&self) -> Usage;

    /// CPU time of the server; `None` if there is none or it is not visible.
    fn server_cpu(&self) -> Option<Duration>;

    /// The relay compared with the row-by-row contender, each with its runs and rows: the rates, and the CPU time per row in
    /// this process and at the server, which does not depend on the load of the machine.
    fn ratios(layout: &str, relay: (&[Self], u64), by_row: (&[Self], u64)) -> Vec<Ratio> {
        let here = |runs: &[Self]| runs.iter().map(Self::here).collect::<Vec<_>>();
        let name = format!("{layout} / row by row");
        let mut ratios = vec![rates(&name, (&here(relay.0), relay.1), (&here(by_row.0), by_row.1))];
        let cpu = |(runs, rows): (&[Self], u64)| -> Option<Vec<f64>> {
            let of_run = |run: &Self| Some((run.here().cpu + run.server_cpu()?).as_secs_f64() / rows as f64);
            runs.iter().map(of_run).collect()
        };
        if let (Some(by_row), Some(relay)) = (cpu(by_row), cpu(relay)) {
            ratios.push(Ratio::of(&format!("{layout}: CPU of row by row"), by_row.into_iter().zip(relay)));
        }
        ratios
    }
}

impl RunCost for Usage {
    fn row(name: &str, rows: u64, runs: &[Self]) -> Row {
        Row::of_runs(name, rows, runs)
    }

    fn here(&self) -> Usage {
        *self
    }

    fn server_cpu(&self) -> Option<Duration> {
        None
    }
}

impl Layouts {
    /// Measures these layouts in turns. `database` is its name and durability; `progress` is called with each next
    /// step.
    async fn measure<B: LayoutBench>(
        &self,
        database: &str,
        layouts: &[RowLayout],
        progress: impl Fn(&str),
        open: impl AsyncFn(RowLayout) -> Result<B, Error>,
    ) -> Result<Report, Error> {
        let Self { rows, payload_bytes, repetitions } = *self;
        let title = format!(
            "layouts on {database}: {rows} rows of {payload_bytes} bytes, {repetitions} runs in turns"
        );
        let few = rows.min(ROW_BY_ROW_ROWS);
        let mut runs: Vec<Runs<B::Cost>> = layouts.iter().map(|_| Runs::default()).collect();
        for run in 1..=repetitions {
            for (layout, Runs { relay, by_row }) in layouts.iter().zip(&mut runs) {
                progress(&format!("run {run} of {repetitions}: {}", layout.name()));
                let mut bench = open(*layout).await?;
                bench.fill(rows, payload_bytes).await?;
                by_row.push(bench.row_by_row(few).await?);
                bench.fill(rows, payload_bytes).await?;
                relay.push(bench.relay(rows).await?);
                bench.close().await?;
            }
        }
        let mut report = Report { title, rows: Vec::new(), ratios: Vec::new() };
        for (layout, Runs { relay, by_row }) in layouts.iter().zip(&runs) {
            let name = layout.name();
            report.rows.push(B::Cost::row(&format!("{name}: postrider"), rows, relay));
            report.rows.push(B::Cost::row(&format!("{name}: row by row"), few, by_row));
            report.ratios.extend(B::Cost::ratios(name, (relay, rows), (by_row, few)));
        }
        Ok(report)
    }
}

/// The error for a layout without statements of its own in these benchmarks.
fn unmeasured(layout: RowLayout) -> Error {
    format!("layout {} has no benchmark: add its statements", layout.name()).into()
}
