//! A database with an outbox, and a sink that records what it acknowledges.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::store::{Store, sqlite::SqliteStore};
use postrider::{BoxFuture, Event};
use postrider_testkit::eventually;
use tempfile::TempDir;
use tokio::sync::watch;

/// The outcome of a message.
type Script = dyn Fn(&Message) -> Outcome + Send + Sync;

/// Records the events that it acknowledges.
#[derive(Clone)]
pub(crate) struct RecordingSink {
    pub(crate) events: Arc<Mutex<Vec<Arc<Event>>>>,
    count: watch::Sender<usize>,
    script: Arc<Script>,
}

impl RecordingSink {
    /// Acknowledges everything.
    pub(crate) fn new() -> Self {
        Self::scripted(|_| acknowledged())
    }

    /// Returns the outcome of the script for each message.
    pub(crate) fn scripted(script: impl Fn(&Message) -> Outcome + Send + Sync + 'static) -> Self {
        Self { events: Arc::default(), count: watch::channel(0).0, script: Arc::new(script) }
    }

    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Arc<Event>> {
        let mut seen = self.count.subscribe();
        let enough = seen.wait_for(|seen| *seen >= count);
        tokio::time::timeout(Duration::from_secs(60), enough).await.expect("not all events arrived").unwrap();
        self.events.lock().unwrap().clone()
    }
}

impl Sink for RecordingSink {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let outcomes: Vec<Outcome> = batch.iter().map(|message| (self.script)(message)).collect();
            for (message, outcome) in batch.iter().zip(&outcomes) {
                if matches!(outcome, Outcome::Acknowledged(_)) {
                    self.events.lock().unwrap().push(message.event.clone());
                    self.count.send_modify(|count| *count += 1);
                }
            }
            outcomes
        })
    }
}

pub(crate) fn acknowledged() -> Outcome {
    Outcome::Acknowledged(Receipt::default())
}

pub(crate) struct Shop {
    _folder: TempDir,
    path: PathBuf,
    pub(crate) store: Arc<dyn Store>,
}

impl Shop {
    pub(crate) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        SqliteStore::migrate(&path).unwrap();
        let store = Arc::new(SqliteStore::open(&path).unwrap());
        Self { _folder: folder, path, store }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    pub(crate) fn connect(&self) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(&self.path).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        connection
    }

    /// Waits until a query returns this number.
    pub(crate) async fn wait_until(&self, sql: &str, expected: i64) {
        let connection = self.connect();
        let ask = || connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        eventually(&format!("{sql} is {expected}"), async || ask() == expected).await;
    }
}

/// The `number`th order; seven customers take turns.
pub(crate) fn order(number: usize) -> Event {
    let customer = (number % 7).to_string();
    Event::new("order.placed", format!("{{\"number\":{number}}}")).with_aggregate("Order", customer)
}

pub(crate) fn number(event: &Event) -> usize {
    let text = std::str::from_utf8(&event.payload).unwrap();
    text.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}
