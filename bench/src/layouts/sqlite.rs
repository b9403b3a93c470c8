//! On a SQLite file.

use std::path::PathBuf;
use std::sync::Arc;

use postrider::layout::{RowLayout, RowTable};
use postrider::relay::Policy;
use postrider::store::sqlite::SqliteRowStore;
use postrider::store::{RowExtras, Start};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Layouts, PAGE_ROWS, ROW_BY_ROW_ROWS};
use crate::carry::carry_from;
use crate::drain::rates;
use crate::machine::Meter;
use crate::{Error, Report, Row, Usage};

/// Measures `outbox_events` in a fresh file. `progress` is reported what happens next.
///
/// # Errors
/// What SQLite or the relay says.
pub async fn sqlite(layouts: Layouts, progress: impl Fn(&str)) -> Result<Report, Error> {
    let Layouts { rows, payload_bytes, repetitions } = layouts;
    let title = format!(
        "layouts on SQLite with synchronous FULL: {rows} rows of {payload_bytes} bytes, {repetitions} runs in turns"
    );
    let few = rows.min(ROW_BY_ROW_ROWS);
    let (mut relay, mut by_row) = (Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}: outbox_events"));
        by_row.push(Bench::fill(rows, payload_bytes)?.row_by_row(few)?);
        relay.push(Bench::fill(rows, payload_bytes)?.relay(rows).await?);
    }
    Ok(Report {
        title,
        rows: vec![
            Row::of_runs("outbox_events: postrider", rows, &relay),
            Row::of_runs("outbox_events: row by row", few, &by_row),
        ],
        ratios: vec![rates("outbox_events / row by row", (&relay, rows), (&by_row, few))],
    })
}

/// A file of its own, gone when dropped.
struct Bench {
    _folder: TempDir,
    path: PathBuf,
    table: RowTable,
}

impl Bench {
    /// With so many rows, each of its own key.
    fn fill(rows: u64, payload_bytes: usize) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("bench.db");
        let table = RowTable::new(RowLayout::OutboxEvents)?;
        SqliteRowStore::migrate(&path, &table, RowExtras::default())?;
        let connection = Connection::open(&path)?;
        let padding = "x".repeat(payload_bytes.saturating_sub(20));
        connection.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
             INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
             SELECT 'Order', n, 'order.placed', json_object('n', n, 'text', ?2) FROM numbers",
            rusqlite::params![i64::try_from(rows)?, padding],
        )?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(Self { _folder: folder, path, table })
    }

    /// Publishes so many rows to nowhere, marking each before and after, as the seed's queries do.
    fn row_by_row(&self, rows: u64) -> Result<Usage, Error> {
        let connection = Connection::open(&self.path)?;
        connection.execute_batch("PRAGMA synchronous = FULL")?;
        let mut due = connection.prepare(
            "SELECT id, payload FROM outbox_events
             WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 10)
             ORDER BY created_at LIMIT ?1",
        )?;
        let mut claim = connection.prepare(
            "UPDATE outbox_events
             SET status = 'PUBLISHING', attempt_count = attempt_count + 1, last_attempt_at = CURRENT_TIMESTAMP
             WHERE id = ?1 AND status IN ('PENDING', 'FAILED')",
        )?;
        let mut mark = connection.prepare("UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = ?1")?;
        let meter = Meter::start();
        let mut published = 0;
        while published < rows {
            let page = due.query_map([PAGE_ROWS], |row| row.get::<_, i64>(0))?;
            for id in page.collect::<Result<Vec<_>, _>>()? {
                claim.execute([id])?;
                mark.execute([id])?;
                published += 1;
            }
        }
        Ok(meter.stop())
    }

    /// Carries all rows to the null sink.
    async fn relay(&self, rows: u64) -> Result<Usage, Error> {
        let store = Arc::new(SqliteRowStore::open(&self.path, &self.table)?);
        let meter = Meter::start();
        carry_from(store, "bench", Start::Beginning, rows, Policy::default()).await?;
        Ok(meter.stop())
    }
}
