//! A shop on PostgreSQL whose writers number the events of each key and record what they have committed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{Event, Outbox};
use postrider_testkit::servers::postgres;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

const WRITERS: usize = 4;
const KEYS: u64 = 200;
/// The maximum size of a payload, in bytes.
const PAYLOAD_MAX: u64 = 600;

/// Keys whose row a writer locks before it writes their event; and every attempt that is counted against an event.
const TABLES: &str = "
    CREATE TABLE stock (key text PRIMARY KEY, version bigint NOT NULL);
    CREATE TABLE counted (attempts bigint NOT NULL);
    CREATE FUNCTION count_attempts() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.counted VALUES (NEW.attempts);
        RETURN NULL;
    END $$;
    CREATE TRIGGER count_attempts AFTER INSERT OR UPDATE ON postrider.parked
        FOR EACH ROW WHEN (NEW.attempts > 0) EXECUTE FUNCTION count_attempts()";

pub(crate) struct Shop {
    pub(crate) folder: TempDir,
    pub(crate) url: String,
    runtime: Runtime,
    client: Client,
    written: Arc<Mutex<File>>,
    seed: AtomicU64,
}

impl Shop {
    /// If there is no server, prints why and returns `None`.
    pub(crate) fn open() -> Option<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let server = postgres::url()?;
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let name = format!("shop_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (before, _) = server.rsplit_once('/').unwrap();
        let url = format!("{before}/{name}");
        let client = runtime.block_on(async {
            connect(server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
            PostgresStore::migrate(&PostgresConfig::new(&url).unwrap()).await.unwrap();
            let client = connect(&url).await;
            client.batch_execute(TABLES).await.unwrap();
            let keys =
                format!("INSERT INTO stock SELECT n::text, 0 FROM generate_series(0, {KEYS} - 1) AS n");
            client.batch_execute(&keys).await.unwrap();
            client
        });
        let folder = tempfile::tempdir().unwrap();
        let written = Arc::new(Mutex::new(File::create(folder.path().join("written")).unwrap()));
        Some(Self { folder, url, runtime, client, written, seed: AtomicU64::new(1) })
    }

    /// The committed events, for the checker.
    pub(crate) fn written(&self) -> PathBuf {
        self.folder.path().join("written")
    }

    /// Several writers commit about this many events while the caller continues.
    pub(crate) fn write(&self, events: usize) -> Writing<'_> {
        let mut writers = JoinSet::new();
        for _ in 0..WRITERS {
            let (url, written) = (self.url.clone(), self.written.clone());
            let random = Random(self.seed.fetch_add(1, Ordering::Relaxed) * 7_919);
            writers.spawn_on(writer(url, written, random, events / WRITERS), self.runtime.handle());
        }
        Writing { shop: self, writers }
    }

    /// Writes one event with a new key.
    pub(crate) fn write_one(&self, event: Event) -> String {
        let written = self.runtime.block_on(Outbox::new().write(&self.client, event)).unwrap();
        written.id.to_string()
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(sql, &[])).unwrap().get(0)
    }

    pub(crate) fn text(&self, sql: &str) -> Option<String> {
        self.runtime.block_on(self.client.query_opt(sql, &[])).unwrap().map(|row| row.get(0))
    }

    /// The floor of a subscription; 0 if it does not exist yet.
    pub(crate) fn floor(&self, subscription: &str) -> i64 {
        let of = format!("SELECT max(floor) FROM postrider.subscriptions WHERE name = '{subscription}'");
        self.number(&format!("SELECT coalesce(({of}), 0)"))
    }

    /// The position of the newest event.
    pub(crate) fn last(&self) -> i64 {
        self.number("SELECT coalesce(max(position), 0) FROM postrider.events")
    }

    /// The number of takeovers of a subscription.
    pub(crate) fn takeovers(&self, subscription: &str) -> i64 {
        self.number(&format!("SELECT epoch - 1 FROM postrider.subscriptions WHERE name = '{subscription}'"))
    }

    /// Attempts that were counted against events.
    pub(crate) fn attempts(&self) -> i64 {
        self.number("SELECT count(*) FROM counted")
    }
}

/// Running writers.
pub(crate) struct Writing<'a> {
    shop: &'a Shop,
    writers: JoinSet<()>,
}

impl Writing<'_> {
    /// Waits until they have committed everything.
    pub(crate) fn finish(mut self) {
        self.shop.runtime.block_on(async {
            while let Some(ended) = self.writers.join_next().await {
                ended.unwrap();
            }
        });
    }
}

async fn writer(url: String, written: Arc<Mutex<File>>, mut random: Random, events: usize) {
    let client = connect(&url).await;
    let mut committed = 0;
    while committed < events {
        let lines = transaction(&client, &mut random, events - committed).await;
        committed += lines.len();
        written.lock().unwrap().write_all(lines.concat().as_bytes()).unwrap();
    }
}

/// One transaction: first the rows of its keys, then their events. A tenth of the transactions are rolled back.
async fn transaction(client: &Client, random: &mut Random, events_max: usize) -> Vec<String> {
    // In one order, so that there is no deadlock.
    let keys: BTreeSet<u64> = (0..events_max.min(8)).map(|_| random.below(KEYS)).collect();
    client.batch_execute("BEGIN").await.unwrap();
    let (mut events, mut lines) = (Vec::new(), Vec::new());
    for key in keys {
        let raise = "UPDATE stock SET version = version + 1 WHERE key = $1 RETURNING version";
        let version: i64 = client.query_one(raise, &[&key.to_string()]).await.unwrap().get(0);
        // Any bytes, including none.
        let payload: Vec<u8> = (0..random.below(PAYLOAD_MAX)).map(|_| random.byte()).collect();
        let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        let event = Event::new("stock.changed", payload).with_key(key.to_string());
        lines.push(format!("{}\t{key}\t{version}\t{hex}\n", event.id));
        events.push(event);
    }
    Outbox::new().write_all(client, events).await.unwrap();
    if random.below(10) == 0 {
        client.batch_execute("ROLLBACK").await.unwrap();
        return Vec::new();
    }
    client.batch_execute("COMMIT").await.unwrap();
    lines
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
