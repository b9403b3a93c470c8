//! On a SQLite file.

use std::path::PathBuf;
use std::sync::Arc;

use postrider::layout::{RowLayout, RowTable};
use postrider::relay::Policy;
use postrider::store::sqlite::SqliteRowStore;
use postrider::store::{RowExtras, Start};
use rusqlite::Connection;
use tempfile::TempDir;

use super::{LayoutBench, Layouts, PAGE_ROWS};
use crate::carry::carry_from;
use crate::machine::Meter;
use crate::{Error, Report, Usage};

/// Measures `outbox_events` in a new file. `progress` is called with each next step.
///
/// # Errors
/// An error of SQLite or the relay.
pub async fn sqlite(layouts: Layouts, progress: impl Fn(&str)) -> Result<Report, Error> {
    let database = "SQLite with synchronous FULL";
    layouts.measure(database, &[RowLayout::OutboxEvents], progress, async |layout| Bench::new(layout)).await
}

/// A table in a new file, which is deleted when this is dropped.
struct Bench {
    _folder: TempDir,
    path: PathBuf,
    table: RowTable,
}

impl Bench {
    fn new(layout: RowLayout) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("bench.db");
        let table = RowTable::new(layout);
        SqliteRowStore::migrate(&path, &table, RowExtras::default())?;
        Ok(Self { _folder: folder, path, table })
    }
}

impl LayoutBench for Bench {
    type Cost = Usage;

    /// In a new file, so that all contenders start with the same pages.
    async fn fill(&mut self, rows: u64, payload_bytes: usize) -> Result<(), Error> {
        *self = Self::new(self.table.layout())?;
        let connection = Connection::open(&self.path)?;
        let padding = "x".repeat(payload_bytes.saturating_sub(20));
        connection.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
             INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
             SELECT 'Order', n, 'order.placed', json_object('n', n, 'text', ?2) FROM numbers",
            rusqlite::params![i64::try_from(rows)?, padding],
        )?;
        Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }

    async fn row_by_row(&mut self, rows: u64) -> Result<Usage, Error> {
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

    async fn relay(&mut self, rows: u64) -> Result<Usage, Error> {
        let store = Arc::new(SqliteRowStore::open(&self.path, &self.table)?);
        let meter = Meter::start();
        carry_from(store, "bench", Start::Beginning, rows, Policy::default()).await?;
        Ok(meter.stop())
    }

    async fn close(self) -> Result<(), Error> {
        Ok(())
    }
}
