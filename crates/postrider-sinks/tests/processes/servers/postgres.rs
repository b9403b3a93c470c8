//! The shop on PostgreSQL: a new database on the server of the test process.

use std::sync::atomic::{AtomicU32, Ordering};

use postrider::Outbox;
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider_testkit::servers::postgres;
use postrider_testkit::verify::Sighting;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

use super::books::Books;
use super::case::{KEYS, Shop, changed};

/// A relay is identified by the name of its connections.
const WATCH: &str = "
    CREATE TABLE stock (key bigint PRIMARY KEY, version bigint NOT NULL);
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
    books: Books,
    url: String,
    runtime: Runtime,
    client: Client,
}

impl PostgresShop {
    async fn sell(&self, keys: &[u64]) -> Vec<Sighting> {
        self.client.batch_execute("BEGIN").await.unwrap();
        let mut events = Vec::new();
        for key in keys {
            let raise = "UPDATE stock SET version = version + 1 WHERE key = $1 RETURNING version";
            let version: i64 = self.client.query_one(raise, &[&key.cast_signed()]).await.unwrap().get(0);
            let id = Outbox::new().write(&self.client, changed(*key, version)).await.unwrap().id;
            events.push(Sighting { id, key: key.to_string(), version: version.unsigned_abs() });
        }
        self.client.batch_execute("COMMIT").await.unwrap();
        events
    }
}

impl Shop for PostgresShop {
    fn open() -> Option<Self> {
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
            let keys = format!("INSERT INTO stock SELECT n, 0 FROM generate_series(0, {KEYS} - 1) AS n");
            client.batch_execute(&keys).await.unwrap();
            client
        });
        Some(Self { books: Books::open(), url, runtime, client })
    }

    fn books(&self) -> &Books {
        &self.books
    }

    fn url_for(&self, relay: &str) -> String {
        format!("{}?application_name={relay}", self.url)
    }

    fn transaction(&self, keys: &[u64]) -> Vec<Sighting> {
        self.runtime.block_on(self.sell(keys))
    }

    fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap();
    }

    fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(self.client.query_one(sql, &[])).unwrap().get(0)
    }

    fn end_lease(&self) {
        self.run("UPDATE postrider.leases SET expires_at = clock_timestamp() - interval '1 second'");
    }

    fn heard_of(&self, relay: &str) -> i64 {
        self.number(&format!(
            "SELECT (extract(epoch FROM max(query_start)) * 1000000)::bigint FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = '{relay}'"
        ))
    }

    fn now_ms(&self) -> i64 {
        self.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    }

    fn lease_taken_ms(&self) -> i64 {
        self.number("SELECT (extract(epoch FROM acquired_at) * 1000)::bigint FROM postrider.leases")
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
