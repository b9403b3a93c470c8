//! An outbox in a temporary SQLite file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use postrider::store::sqlite::SqliteStore;
use postrider::{IntoEvent, Outbox, Written};
use rusqlite::Connection;
use tempfile::TempDir;

use super::Emitted;

/// An outbox in a temporary SQLite file, which is removed when the last clone is dropped. Tables of the application can be
/// in the same file.
///
/// ```
/// use postrider::Event;
/// use postrider_testkit::{Expected, TestOutbox};
///
/// let outbox = TestOutbox::new();
/// outbox.connect().execute("CREATE TABLE mails (order_id INTEGER)", []).unwrap();
/// outbox.write(Event::new("order.placed", r#"{"order": 42}"#));
/// outbox.emitted().assert(&[Expected::new("order.placed")]);
/// ```
#[derive(Debug, Clone)]
pub struct TestOutbox {
    folder: Arc<TempDir>,
}

#[allow(clippy::panic, reason = "a test that cannot go on fails")]
impl TestOutbox {
    /// A new file with the tables of Postrider.
    ///
    /// # Panics
    /// If the file cannot be created.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        let outbox = Self { folder: Arc::new(folder) };
        SqliteStore::migrate(outbox.path()).unwrap_or_else(|error| panic!("{error}"));
        outbox
    }

    /// The file, for any driver.
    pub fn path(&self) -> PathBuf {
        Path::new(self.folder.path()).join("outbox.db")
    }

    /// A connection to the file. It waits for the locks of other connections.
    ///
    /// # Panics
    /// If the file cannot be opened.
    pub fn connect(&self) -> Connection {
        let opened = Connection::open(self.path()).and_then(|connection| {
            connection.busy_timeout(Duration::from_secs(30))?;
            Ok(connection)
        });
        opened.unwrap_or_else(|error| panic!("the file cannot be opened: {error}"))
    }

    /// Writes an event in its own transaction.
    ///
    /// # Panics
    /// If the event is refused, with the reason.
    pub fn write(&self, event: impl IntoEvent) -> Written {
        let event = event.into_event().unwrap_or_else(|error| panic!("{error}"));
        let mut connection = self.connect();
        let write = || -> Result<Written, Box<dyn std::error::Error>> {
            let tx = connection.transaction()?;
            let written = Outbox::new().write(&tx, event)?;
            tx.commit()?;
            Ok(written)
        };
        write().unwrap_or_else(|error| panic!("the event was not written: {error}"))
    }

    /// The committed events.
    pub fn emitted(&self) -> Emitted {
        Emitted::in_sqlite(&self.connect())
    }

    /// The number in the first column and row of a query.
    ///
    /// # Panics
    /// If the query fails.
    pub fn count(&self, sql: &str) -> i64 {
        self.connect().query_row(sql, [], |row| row.get(0)).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub(super) fn open(&self) -> SqliteStore {
        SqliteStore::open(self.path()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A relay that crashed holds its lease for a while, in real time; the next one of the test does not wait for that.
    pub(super) fn release_leases(&self) {
        let released = self.connect().execute("DELETE FROM postrider_leases", []);
        _ = released.unwrap_or_else(|error| panic!("the leases cannot be released: {error}"));
    }
}

impl Default for TestOutbox {
    fn default() -> Self {
        Self::new()
    }
}
