//! A file full of events, for all contenders.

use std::path::PathBuf;

use postrider::Event;
use postrider::store::sqlite::SqliteStore;
use postrider::write::Outbox;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::Error;

/// Events per transaction while filling.
const FILL_BATCH: u64 = 5_000;

/// What to fill a file with.
pub(crate) struct Filling {
    pub(crate) events: u64,
    pub(crate) payload_bytes: usize,
    /// Different keys; 0: every event has its own.
    pub(crate) keys: u64,
}

/// A fresh database in a folder of its own, gone when dropped.
pub(crate) struct Fixture {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Fixture {
    /// Writes events, the ordinary way.
    pub(crate) fn fill(filling: &Filling) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("bench.db");
        SqliteStore::migrate(&path)?;
        let fixture = Self { _folder: folder, path };
        let mut connection = fixture.connect()?;
        let outbox = Outbox::new();
        let mut next = 0;
        while next < filling.events {
            let until = (next + FILL_BATCH).min(filling.events);
            let tx = connection.transaction()?;
            outbox.write_all(&*tx, (next..until).map(|number| event(filling, number)))?;
            tx.commit()?;
            next = until;
        }
        // Everybody starts with the events in the main file and nothing in the log.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(fixture)
    }

    pub(crate) fn connect(&self) -> Result<Connection, Error> {
        Ok(Connection::open(&self.path)?)
    }
}

fn event(filling: &Filling, number: u64) -> Event {
    let key = if filling.keys == 0 { number } else { number % filling.keys };
    let head = format!("{{\"number\":{number},\"text\":\"");
    let filler = filling.payload_bytes.saturating_sub(head.len() + 2);
    Event::new("order.placed", format!("{head}{}\"}}", "x".repeat(filler)))
        .with_aggregate("Order", format!("order-{key}"))
}
