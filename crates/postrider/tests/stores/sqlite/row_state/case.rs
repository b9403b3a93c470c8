//! A file for every case, which is removed with the test.

use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use crate::failed;
use postrider::Result;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::sqlite::SqliteRowStore;
use postrider::store::{RowExtras, Store};
use postrider_testkit::conformance::rows::{ATTEMPTS_MAX, Refusing};
use rusqlite::Connection;
use rusqlite::types::{FromSql, Value};
use tempfile::TempDir;

use crate::row_database::RowDatabase;

pub(crate) struct Case {
    _folder: TempDir,
    pub(crate) path: PathBuf,
    pub(crate) table: RowTable,
    /// Whether other publishers use the table.
    is_shared: bool,
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
        let table = RowTable::new(RowLayout::OutboxEvents).max_attempts(ATTEMPTS_MAX);
        Ok(Self { _folder: folder, path, table, is_shared: false })
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

    /// Inserts the names of the tables.
    fn sql(&self, text: &str) -> String {
        text.replace("{ledger}.", "postrider_").replace("{t}", self.table.layout().name())
    }

    pub(crate) fn run(&self, sql: &str) -> Result<()> {
        self.connect()?.execute_batch(&self.sql(sql)).map_err(failed)
    }

    pub(crate) fn one<T: FromSql>(&self, sql: &str) -> Result<T> {
        self.connect()?.query_row(sql, [], |row| row.get(0)).map_err(failed)
    }
}

impl RowDatabase for Case {
    const NOW: &'static str = "CURRENT_TIMESTAMP";

    async fn create(layout: RowLayout) -> Result<Self> {
        assert_eq!(layout, RowLayout::OutboxEvents, "SQLite has no other layout");
        Self::new()
    }

    fn with_sharing(self, is_shared: bool) -> Self {
        Self { table: self.table.shared(is_shared), is_shared, ..self }
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn layout(&self) -> RowLayout {
        self.table.layout()
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.store()
    }

    async fn execute(&self, sql: &str) -> Result<()> {
        self.run(sql)
    }

    async fn rows(&self, sql: &str) -> Result<Vec<Vec<String>>> {
        let connection = self.connect()?;
        let mut statement = connection.prepare(&self.sql(sql)).map_err(failed)?;
        let columns = statement.column_count();
        let text = |value: Value| match value {
            Value::Null => String::new(),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Text(text) => text,
            Value::Blob(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        };
        let rows = statement
            .query_map([], |row| (0..columns).map(|at| row.get(at).map(text)).collect())
            .map_err(failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    fn text(expression: &str) -> String {
        format!("CAST({expression} AS TEXT)")
    }

    async fn insert_rows(&self, inserts: Vec<(String, Option<String>)>) -> Result<Vec<String>> {
        let mut connection = self.connect()?;
        let tx = connection.transaction().map_err(failed)?;
        let mut ids = Vec::new();
        for (sql, id) in inserts {
            tx.execute_batch(&sql).map_err(failed)?;
            ids.push(id.unwrap_or_else(|| tx.last_insert_rowid().to_string()));
        }
        tx.commit().map_err(failed)?;
        Ok(ids)
    }

    async fn refuse_updates(&self, table: &str, condition: &str, how: Refusing) -> Result<bool> {
        let what = match how {
            Refusing::WithAnError => "ABORT, 'the row is frozen'",
            Refusing::InSilence => "IGNORE",
        };
        self.run(&format!(
            "CREATE TRIGGER refuse BEFORE UPDATE ON {table} WHEN {condition} BEGIN SELECT RAISE({what}); END"
        ))?;
        Ok(true)
    }

    async fn expire(&self) -> Result<()> {
        self.run("UPDATE {ledger}.row_leases SET expires_at = 0")
    }

    async fn make_older(&self, table: &str, times: &[&str]) -> Result<()> {
        for time in times {
            self.run(&format!("UPDATE {table} SET {time} = datetime({time}, '-2 days')"))?;
        }
        self.run("UPDATE {ledger}.row_done SET done_at = done_at - 172800000000")
    }
}
