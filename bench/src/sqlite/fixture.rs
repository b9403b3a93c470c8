//! A file full of events, for all contenders.

use std::path::PathBuf;

use postrider::Event;
use postrider::store::sqlite::SqliteStore;
use postrider::write::Outbox;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::Error;
use crate::drain::Drain;

/// Events per transaction while filling.
const FILL_BATCH: u64 = 5_000;

/// A fresh database in a folder of its own, gone when dropped.
pub(crate) struct Fixture {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Fixture {
    /// Writes the events of a drain, the ordinary way.
    pub(crate) fn fill(drain: &Drain) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("bench.db");
        SqliteStore::migrate(&path)?;
        let fixture = Self { _folder: folder, path };
        let mut connection = fixture.connect()?;
        let outbox = Outbox::new();
        let mut next = 0;
        while next < drain.events {
            let until = (next + FILL_BATCH).min(drain.events);
            let tx = connection.transaction()?;
            outbox.write_all(&*tx, (next..until).map(|number| event(drain, number)))?;
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

fn event(drain: &Drain, number: u64) -> Event {
    let key = if drain.keys == 0 { number } else { number % drain.keys };
    let head = format!("{{\"number\":{number},\"text\":\"");
    let filler = drain.payload_bytes.saturating_sub(head.len() + 2);
    Event::new("order.placed", format!("{head}{}\"}}", "x".repeat(filler)))
        .with_aggregate("Order", format!("order-{key}"))
}
