//! A table and an outbox in one SQLite file.

use std::path::PathBuf;
use std::sync::Arc;

use postrider::adopt::AdoptSource;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::sqlite::{SqliteRowStore, SqliteStore};
use postrider::{Event, Outbox, Result};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::adopt::stage::{ATTEMPTS_MAX, Late, Stage};
use crate::failed;

pub(crate) struct Sqlite {
    _folder: TempDir,
    path: PathBuf,
    table: RowTable,
}

impl Sqlite {
    fn connect(&self) -> Result<Connection> {
        let connection = Connection::open(&self.path).map_err(failed)?;
        connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(failed)?;
        Ok(connection)
    }
}

fn sql(text: &str) -> String {
    text.replace("{t}", "outbox_events")
        .replace("{events}", "postrider_events")
        .replace("{parked}", "postrider_parked")
        .replace("{notes}", "postrider_row_notes")
        .replace("{leases of log}", "postrider_leases")
        .replace("{leases of rows}", "postrider_row_leases")
        .replace("{never}", "0")
}

impl Stage for Sqlite {
    async fn new(layout: RowLayout) -> Result<Option<Self>> {
        let folder = TempDir::new().map_err(failed)?;
        let path = folder.path().join("shop.db");
        let table = RowTable::new(layout).max_attempts(ATTEMPTS_MAX);
        SqliteRowStore::migrate(&path, &table, RowExtras::default())?;
        SqliteStore::migrate(&path)?;
        Ok(Some(Self { _folder: folder, path, table }))
    }

    fn layout(&self) -> RowLayout {
        self.table.layout()
    }

    async fn rows(&self) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(SqliteRowStore::open(&self.path, &self.table)?))
    }

    async fn log(&self) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(SqliteStore::open(&self.path)?))
    }

    fn to_rows(&self) -> Outbox {
        Outbox::anonymous().table(self.table.clone())
    }

    fn to_log(&self) -> Outbox {
        Outbox::anonymous()
    }

    async fn write(&self, to: &Outbox, events: Vec<Event>) -> Result<()> {
        to.write_all(&self.connect()?, events).map(|_| ())
    }

    async fn run(&self, text: &str) -> Result<()> {
        self.connect()?.execute_batch(&sql(text)).map_err(failed)
    }

    async fn one(&self, text: &str) -> Result<i64> {
        self.connect()?.query_row(&sql(text), [], |row| row.get(0)).map_err(failed)
    }

    async fn hide_log(&self, is_hidden: bool) -> Result<()> {
        let (from, to) =
            if is_hidden { ("postrider_events", "hidden") } else { ("hidden", "postrider_events") };
        // The view that reads the table must neither be renamed nor prevent the rename.
        self.run(&format!("PRAGMA legacy_alter_table = ON; ALTER TABLE {from} RENAME TO {to}")).await
    }

    /// An open write transaction would block every other writer, so this one begins when it commits.
    async fn write_late(&self, event: Event) -> Result<Late> {
        let (connection, to) = (self.connect()?, self.to_rows());
        Ok(Box::pin(async move { to.write(&connection, event).map(|_| ()) }))
    }
}
