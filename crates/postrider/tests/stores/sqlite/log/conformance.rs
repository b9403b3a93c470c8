//! The SQLite store passes the suite of all stores.

use std::path::PathBuf;
use std::sync::Arc;

use crate::failed;
use postrider::store::Store;
use postrider::store::sqlite::SqliteStore;
use postrider::{BoxFuture, Event, Outbox, Position, Result};
use postrider_testkit::conformance::store::{OpenTransaction, StoreUnderTest};
use rusqlite::{Connection, params};
use tempfile::TempDir;

postrider_testkit::store_conformance!(SqliteFile);

/// A file that is removed with the test.
struct SqliteFile {
    _folder: TempDir,
    path: PathBuf,
}

impl SqliteFile {
    fn connect(&self) -> Result<Connection> {
        Connection::open(&self.path).map_err(failed)
    }
}

impl StoreUnderTest for SqliteFile {
    /// The last position at the time of the backup.
    type Backup = i64;

    const DATABASE: Option<&'static str> = Some("SQLite");
    const SHOWS_WRITERS: bool = false;

    async fn fresh() -> Result<Self> {
        let folder = TempDir::new().map_err(failed)?;
        let path = folder.path().join("outbox.db");
        SqliteStore::migrate(&path)?;
        Ok(Self { _folder: folder, path })
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(SqliteStore::open(&self.path)?))
    }

    async fn write(&self, events: Vec<Event>) -> Result<Vec<Position>> {
        let written = Outbox::anonymous().write_all(&self.connect()?, events)?;
        Ok(written.into_iter().map(|written| written.position).collect())
    }

    async fn begin(&self, events: Vec<Event>) -> Result<Box<dyn OpenTransaction>> {
        let connection = self.connect()?;
        connection.execute_batch("BEGIN").map_err(failed)?;
        Outbox::anonymous().write_all(&connection, events)?;
        Ok(Box::new(Open(connection)))
    }

    async fn waste_position(&self) -> Result<Position> {
        let position = self.write(vec![Event::new("wasted", "")]).await?[0];
        self.delete(position).await?;
        Ok(position)
    }

    async fn delete(&self, position: Position) -> Result<()> {
        let sql = "DELETE FROM postrider_events WHERE position = ?1";
        self.connect()?.execute(sql, [position.get()]).map(|_| ()).map_err(failed)
    }

    async fn damage(&self, position: Position) -> Result<()> {
        let sql = "UPDATE postrider_events SET action = '{}' WHERE position = ?1";
        self.connect()?.execute(sql, [position.get()]).map(|_| ()).map_err(failed)
    }

    async fn back_up(&self) -> Result<i64> {
        let sql = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'postrider_events'";
        self.connect()?.query_row(sql, [], |row| row.get(0)).map_err(failed)
    }

    async fn restore(&self, last: i64) -> Result<()> {
        let connection = self.connect()?;
        let run = |sql| connection.execute(sql, params![last]).map(|_| ()).map_err(failed);
        run("DELETE FROM postrider_events WHERE position > ?1")?;
        run("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'postrider_events'")
    }

    async fn skip_to(&self, position: Position) -> Result<()> {
        let sql = "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'postrider_events'";
        self.connect()?.execute(sql, [position.get()]).map(|_| ()).map_err(failed)
    }

    async fn widen(&self, position: Position, bytes: usize) -> Result<()> {
        let sql = "UPDATE postrider_events SET headers = ?2 WHERE position = ?1";
        let headers = format!(r#"{{"wide":"{}"}}"#, "w".repeat(bytes));
        self.connect()?.execute(sql, params![position.get(), headers]).map(|_| ()).map_err(failed)
    }

    async fn revise_parked(&self, name: &str, position: Position, state: Option<&str>) -> Result<()> {
        let sql = match state {
            Some(_) => {
                "UPDATE postrider_parked SET state = ?3, attempts = 0 WHERE subscription = ?1 AND position = ?2"
            }
            None => "DELETE FROM postrider_parked WHERE subscription = ?1 AND position = ?2 AND ?3 IS NULL",
        };
        self.connect()?.execute(sql, params![name, position.get(), state]).map(|_| ()).map_err(failed)
    }

    async fn expire_lease(&self, subscription: &str) -> Result<()> {
        let sql = "UPDATE postrider_leases SET expires_at = 0 WHERE name = ?1";
        self.connect()?.execute(sql, [subscription]).map(|_| ()).map_err(failed)
    }
}

struct Open(Connection);

impl OpenTransaction for Open {
    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.0.execute_batch("COMMIT").map_err(failed) })
    }

    fn roll_back(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.0.execute_batch("ROLLBACK").map_err(failed) })
    }
}
