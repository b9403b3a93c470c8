//! The shop on PostgreSQL: a database of its own on the server of the test process.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{Event, Outbox};
use postrider_testkit::audit::{Sighting, Verdict, audit};
use postrider_testkit::servers::postgres;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

use super::shop::{delivered_to, wait_for};

const KEYS: u64 = 20;

/// Notes who changes what the relays keep in the database, by the name of the connection.
const WATCH: &str = "
    CREATE TABLE stock (key text PRIMARY KEY, version bigint NOT NULL);
    CREATE TABLE changes (number bigint GENERATED ALWAYS AS IDENTITY, what text NOT NULL, relay text NOT NULL);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.changes (what, relay) VALUES (TG_TABLE_NAME, current_setting('application_name'));
        RETURN NULL;
    END $$;
    CREATE TRIGGER note AFTER UPDATE OF done ON postrider.subscriptions FOR EACH ROW EXECUTE FUNCTION note();
    CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON postrider.parked FOR EACH ROW EXECUTE FUNCTION note();
    CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON postrider.leases FOR EACH ROW EXECUTE FUNCTION note()";

pub(crate) struct PostgresShop {
    _folder: TempDir,
    pub(crate) output: PathBuf,
    url: String,
    runtime: Runtime,
    client: Client,
    committed: RefCell<Vec<Sighting>>,
}

impl PostgresShop {
    /// `None` where there is no server.
    pub(crate) fn open() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let server = postgres::url()?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let name = format!("shop_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (before, _) = server.rsplit_once('/').unwrap();
        let url = format!("{before}/{name}");
        let client = runtime.block_on(async {
            connect(server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
            PostgresStore::migrate(&PostgresConfig::new(&url).unwrap()).await.unwrap();
            let client = connect(&url).await;
            client.batch_execute(WATCH).await.unwrap();
            let keys =
                format!("INSERT INTO stock SELECT n::text, 0 FROM generate_series(0, {KEYS} - 1) AS n");
            client.batch_execute(&keys).await.unwrap();
            client
        });
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("events.jsonl");
        Some(Self { _folder: folder, output, url, runtime, client, committed: RefCell::default() })
    }

    /// The address for a relay whose changes are noted under this name.
    pub(crate) fn url_for(&self, relay: &str) -> String {
        format!("{}?application_name={relay}", self.url)
    }

    /// Writes so many transactions, of two events each.
    pub(crate) fn write(&self, transactions: u64) {
        for number in 0..transactions {
            let keys = [number % KEYS, (number * 7 + 3) % KEYS];
            let events = self.runtime.block_on(self.transaction(&keys));
            self.committed.borrow_mut().extend(events);
        }
    }

    async fn transaction(&self, keys: &[u64]) -> Vec<Sighting> {
        self.client.batch_execute("BEGIN").await.unwrap();
        let mut events = Vec::new();
        for key in keys {
            let (key, raise) =
                (key.to_string(), "UPDATE stock SET version = version + 1 WHERE key = $1 RETURNING version");
            let version: i64 = self.client.query_one(raise, &[&key]).await.unwrap().get(0);
            let event = Event::new("stock.changed", format!("{{\"version\":{version}}}"))
                .with_aggregate("Stock", key.clone());
            let id = Outbox::new().write(&self.client, event).await.unwrap().id;
            events.push(Sighting { id, key, version: version.unsigned_abs() });
        }
        self.client.batch_execute("COMMIT").await.unwrap();
        events
    }

    pub(crate) fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(sql, &[])).unwrap().get(0)
    }

    /// Changes noted under a name.
    pub(crate) fn changes_of(&self, relay: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM changes WHERE relay = '{relay}'"))
    }

    pub(crate) fn verdict(&self) -> Verdict {
        audit(&self.committed.borrow(), &delivered_to(&self.output))
    }

    /// Waits until everything committed so far is delivered, or gives up after a minute.
    pub(crate) fn wait_until_delivered(&self) -> Verdict {
        wait_for(|| self.verdict().lost == 0);
        self.verdict()
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
