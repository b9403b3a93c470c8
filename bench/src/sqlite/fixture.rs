//! A file full of events, for all contenders.

use std::path::PathBuf;

use postrider::store::sqlite::SqliteStore;
use postrider::write::Outbox;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::Error;
use crate::workload::Workload;

/// Events per transaction while filling.
const FILL_BATCH: u64 = 5_000;

/// A new database in a temporary folder, which is deleted when this is dropped.
pub(crate) struct Fixture {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Fixture {
    /// Writes events with the library.
    pub(crate) fn fill(workload: &Workload) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("bench.db");
        SqliteStore::migrate(&path)?;
        let fixture = Self { _folder: folder, path };
        let mut connection = fixture.connect()?;
        let outbox = Outbox::new();
        let mut next = 0;
        while next < workload.events {
            let until = (next + FILL_BATCH).min(workload.events);
            let tx = connection.transaction()?;
            outbox.write_all(&*tx, (next..until).map(|number| workload.event(number)))?;
            tx.commit()?;
            next = until;
        }
        // All contenders start with the events in the main file and an empty WAL.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(fixture)
    }

    pub(crate) fn connect(&self) -> Result<Connection, Error> {
        Ok(Connection::open(&self.path)?)
    }
}
