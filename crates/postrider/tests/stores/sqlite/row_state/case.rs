//! A file of its own for every case, gone with the test.

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use crate::failed;
use postrider::Result;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::sqlite::SqliteRowStore;
use postrider::store::{RowExtras, Store};
use postrider_testkit::conformance::rows::{ATTEMPTS_MAX, Refusing};
use rusqlite::Connection;
use rusqlite::types::FromSql;
use tempfile::TempDir;

pub(crate) struct Case {
    _folder: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) table: RowTable,
}

impl Case {
    pub(crate) fn new() -> Result<Self> {
        let case = Self::without_tables()?;
        SqliteRowStore::migrate(&case.path, &case.table, RowExtras::default())?;
        Ok(case)
    }

    pub(crate) fn without_tables() -> Result<Self> {
        let folder = TempDir::new().map_err(failed)?;
        let path = folder.path().join("shop.db");
        let table = RowTable::new(RowLayout::OutboxEvents)?.max_attempts(ATTEMPTS_MAX);
        Ok(Self { _folder: folder, path, table })
    }

    pub(crate) fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(SqliteRowStore::open(&self.path, &self.table)?))
    }

    /// A connection of the application.
    pub(crate) fn connect(&self) -> Result<Connection> {
        let connection = Connection::open(&self.path).map_err(failed)?;
        connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(failed)?;
        Ok(connection)
    }

    pub(crate) fn run(&self, sql: &str) -> Result<()> {
        self.connect()?.execute_batch(sql).map_err(failed)
    }

    pub(crate) fn one<T: FromSql>(&self, sql: &str) -> Result<T> {
        self.connect()?.query_row(sql, [], |row| row.get(0)).map_err(failed)
    }

    /// Makes the lease's time run out.
    pub(crate) fn expire_lease(&self) -> Result<()> {
        self.run("UPDATE postrider_row_leases SET expires_at = 0")
    }

    /// Makes all rows two days older, in these columns, and our notes of them.
    pub(crate) fn age(&self, table: &str, times: &[&str]) -> Result<()> {
        for time in times {
            self.run(&format!("UPDATE {table} SET {time} = datetime({time}, '-2 days')"))?;
        }
        self.run("UPDATE postrider_row_done SET done_at = done_at - 172800000000")
    }

    /// Writes rows in one transaction, a statement each, with the id of the row if it is no number.
    pub(crate) fn write_rows(
        &self,
        rows: usize,
        insert: impl Fn(usize) -> (String, Option<String>),
    ) -> Result<Vec<String>> {
        let mut connection = self.connect()?;
        let tx = connection.transaction().map_err(failed)?;
        let mut ids = Vec::new();
        for (sql, id) in (0..rows).map(insert) {
            tx.execute_batch(&sql).map_err(failed)?;
            ids.push(id.unwrap_or_else(|| tx.last_insert_rowid().to_string()));
        }
        tx.commit().map_err(failed)?;
        Ok(ids)
    }

    /// The last errors of the rows that our notes call dead.
    pub(crate) fn dead(&self) -> Result<Vec<String>> {
        let connection = self.connect()?;
        let sql = "SELECT coalesce(last_error, '') FROM postrider_row_notes WHERE state = 'dead'";
        let mut statement = connection.prepare(sql).map_err(failed)?;
        let rows = statement.query_map([], |row| row.get(0)).map_err(failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    /// Makes a table refuse every UPDATE of rows that pass a condition over `old`.
    pub(crate) fn refuse(&self, table: &str, rows: &str, how: Refusing) -> Result<bool> {
        let what = match how {
            Refusing::WithAnError => "ABORT, 'the row is frozen'",
            Refusing::InSilence => "IGNORE",
        };
        self.run(&format!(
            "CREATE TRIGGER refuse BEFORE UPDATE ON {table} WHEN {rows} BEGIN SELECT RAISE({what}); END"
        ))?;
        Ok(true)
    }

    /// The INSERT of one row of a key, as somebody who does not know Postrider would write it.
    pub(crate) fn insert(key: &str, number: usize) -> String {
        format!(
            "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
             VALUES ('Order', '{key}', 'order.placed', '{{\"n\": {number}}}')"
        )
    }
}

/// Ids as a list of texts.
pub(crate) fn listed(ids: &[&str]) -> String {
    ids.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ")
}
