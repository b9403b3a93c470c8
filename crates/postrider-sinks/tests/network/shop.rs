//! An outbox in a file, events that count the versions of their key, and a count of all attempts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use postrider::Event;
use postrider::store::sqlite::SqliteStore;
use postrider::write::Outbox;
use postrider_testkit::verify::Sighting;
use rusqlite::Connection;
use tempfile::TempDir;

pub(crate) const KEYS: u64 = 20;

pub(crate) struct Shop {
    folder: TempDir,
    connection: Connection,
    versions: BTreeMap<u64, u64>,
    pub(crate) written: Vec<Sighting>,
}

impl Shop {
    pub(crate) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("shop.db");
        SqliteStore::migrate(&database).unwrap();
        let connection = Connection::open(&database).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        let counted = "CREATE TABLE counted (attempts INTEGER NOT NULL);
             CREATE TRIGGER counted AFTER INSERT ON postrider_parked WHEN NEW.attempts > 0
             BEGIN INSERT INTO counted VALUES (NEW.attempts); END;
             CREATE TRIGGER raised AFTER UPDATE ON postrider_parked WHEN NEW.attempts > OLD.attempts
             BEGIN INSERT INTO counted VALUES (NEW.attempts); END";
        connection.execute_batch(counted).unwrap();
        Self { folder, connection, versions: BTreeMap::new(), written: Vec::new() }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("shop.db")
    }

    /// Writes this many events of all keys in one transaction: they exist at the same time, so that none is the only
    /// one for its destination.
    pub(crate) fn write(&mut self, events: u64) {
        let tx = self.connection.transaction().unwrap();
        for number in 0..events {
            let key = number % KEYS;
            let version = self.versions.entry(key).or_default();
            *version += 1;
            let event = Event::new("counted", version.to_string()).with_key(key.to_string());
            let written = Outbox::new().write(&tx, event).unwrap();
            self.written.push(Sighting { id: written.id, key: key.to_string(), version: *version });
        }
        tx.commit().unwrap();
    }

    pub(crate) fn floor(&self) -> i64 {
        self.number("SELECT floor FROM postrider_subscriptions")
    }

    pub(crate) fn last(&self) -> i64 {
        self.number("SELECT max(position) FROM postrider_events")
    }

    pub(crate) fn takeovers(&self) -> usize {
        usize::try_from(self.number("SELECT epoch - 1 FROM postrider_subscriptions")).unwrap()
    }

    /// Attempts counted against events.
    pub(crate) fn attempts(&self) -> i64 {
        self.number("SELECT count(*) FROM counted")
    }

    /// The number of parked events.
    pub(crate) fn parked(&self) -> i64 {
        self.number("SELECT count(*) FROM postrider_parked")
    }

    fn number(&self, sql: &str) -> i64 {
        self.connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}
