//! A shop whose writers count a version per key, and the audit of the events that its relay delivered.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use postrider::Event;
use postrider::store::sqlite::SqliteStore;
use postrider::write::Outbox;
use postrider_testkit::verify::{Sighting, Verdict, verify};
use postrider_testkit::within;
use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;

use super::examples::RelayProcess;

const KEYS: u64 = 20;

pub(crate) struct Shop {
    _folder: TempDir,
    pub(crate) database: PathBuf,
    pub(crate) output: PathBuf,
    committed: Arc<Mutex<Vec<Sighting>>>,
}

impl Shop {
    pub(crate) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (database, output) = (folder.path().join("shop.db"), folder.path().join("events.jsonl"));
        SqliteStore::migrate(&database).unwrap();
        let shop = Self { _folder: folder, database, output, committed: Arc::default() };
        let connection = shop.connect();
        connection
            .execute_batch("CREATE TABLE stock (key INTEGER PRIMARY KEY, version INTEGER NOT NULL) STRICT")
            .unwrap();
        for key in 0..KEYS {
            connection.execute("INSERT INTO stock VALUES (?1, 0)", [key as i64]).unwrap();
        }
        shop
    }

    pub(crate) fn connect(&self) -> Connection {
        let connection = Connection::open(&self.database).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection
    }

    /// Stops a relay while it writes nothing: one that is stopped within a transaction keeps the lock of the file, and
    /// no other process can write until it is resumed.
    pub(crate) fn stop(&self, relay: &RelayProcess) {
        let connection = Connection::open(&self.database).unwrap();
        loop {
            relay.signal("STOP");
            connection.busy_timeout(Duration::from_millis(200)).unwrap();
            if connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_ok() {
                return;
            }
            relay.signal("CONT");
        }
    }

    /// Starts a writer that runs until it is stopped. A fifth of its transactions are rolled back.
    pub(crate) fn writer(&self, seed: u64, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
        let (mut connection, committed, stop) = (self.connect(), self.committed.clone(), stop.clone());
        std::thread::spawn(move || {
            let mut random = seed;
            while !stop.load(Ordering::Relaxed) {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let events = write(&mut connection, random >> 33);
                committed.lock().unwrap().extend(events);
            }
        })
    }

    /// Writes this many transactions.
    pub(crate) fn write(&self, transactions: u64) {
        let mut connection = self.connect();
        for number in 0..transactions {
            let events = write(&mut connection, number * 7 + 1);
            self.committed.lock().unwrap().extend(events);
        }
    }

    /// All events in the relay's file, in order.
    pub(crate) fn delivered(&self) -> Vec<Sighting> {
        delivered_to(&self.output)
    }

    /// The length of the relay's file: it grows with every delivery.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        std::fs::metadata(&self.output).map_or(0, |file| file.len())
    }

    pub(crate) fn verdict(&self) -> Verdict {
        verify(&self.committed.lock().unwrap(), &self.delivered())
    }

    /// Waits until everything committed so far is delivered, for at most a minute.
    pub(crate) fn wait_until_delivered(&self) -> Verdict {
        wait_for(|| self.verdict().lost == 0);
        self.verdict()
    }
}

/// Polls a condition for at most a minute. Returns whether it holds.
pub(crate) fn wait_for(condition: impl FnMut() -> bool) -> bool {
    within(Duration::from_secs(60), condition).is_some()
}

/// Sleeps. Only for events that give no signal, or that should occur at any moment.
#[allow(clippy::disallowed_methods, reason = "there is nothing to wait for")]
pub(crate) fn let_pass(time: Duration) {
    std::thread::sleep(time);
}

/// One transaction: the stock's row first, then the event, then commit or not.
fn write(connection: &mut Connection, random: u64) -> Vec<Sighting> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let mut events = Vec::new();
    for key in [random % KEYS, (random / KEYS) % KEYS] {
        let version: i64 = tx
            .query_row(
                "UPDATE stock SET version = version + 1 WHERE key = ?1 RETURNING version",
                [key as i64],
                |row| row.get(0),
            )
            .unwrap();
        let payload = format!("{{\"version\":{version}}}");
        let event = Event::new("stock.changed", payload).with_aggregate("Stock", key.to_string());
        let written = Outbox::new().write(&tx, event).unwrap();
        events.push(Sighting { id: written.id, key: key.to_string(), version: version as u64 });
    }
    if random.is_multiple_of(5) {
        tx.rollback().unwrap();
        return Vec::new();
    }
    tx.commit().unwrap();
    events
}

/// All events in a relay's file, in order.
pub(crate) fn delivered_to(output: &Path) -> Vec<Sighting> {
    let text = std::fs::read_to_string(output).unwrap_or_default();
    // The last line may be incomplete while it is written.
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    whole.lines().filter(|line| !line.is_empty()).map(sighting).collect()
}

fn sighting(line: &str) -> Sighting {
    let envelope: serde_json::Value = serde_json::from_str(line).unwrap();
    Sighting {
        id: envelope["id"].as_str().unwrap().parse().unwrap(),
        key: envelope["aggregate"]["id"].as_str().unwrap().to_owned(),
        version: envelope["payload"]["version"].as_u64().unwrap(),
    }
}
