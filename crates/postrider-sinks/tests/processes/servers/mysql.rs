//! The shop on MySQL and MariaDB: a private server on which every relay has its own user.

use std::cell::RefCell;
use std::marker::PhantomData;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::{Ident, Outbox};
use postrider_testkit::servers::mysql::{Kind, Options, Server, own};
use postrider_testkit::verify::Sighting;
use tokio::runtime::{Builder, Runtime};

use super::books::Books;
use super::case::{KEYS, Shop, changed};

/// One of the two, as a type.
pub(crate) trait Which {
    const KIND: Kind;
}

pub(crate) struct MySql;
pub(crate) struct MariaDb;

impl Which for MySql {
    const KIND: Kind = Kind::MySql;
}

impl Which for MariaDb {
    const KIND: Kind = Kind::MariaDb;
}

const TABLES: &str = "
    CREATE TABLE stock (`key` BIGINT PRIMARY KEY, version BIGINT NOT NULL);
    CREATE TABLE changes (number BIGINT AUTO_INCREMENT PRIMARY KEY, what TEXT NOT NULL, relay TEXT NOT NULL)";

/// The recorded changes. A trigger applies to one kind of statement and not to a single column, so every change of a
/// subscription counts.
const WATCHED: [(&str, &str); 7] = [
    ("subscriptions", "UPDATE"),
    ("parked", "INSERT"),
    ("parked", "UPDATE"),
    ("parked", "DELETE"),
    ("leases", "INSERT"),
    ("leases", "UPDATE"),
    ("leases", "DELETE"),
];

pub(crate) struct MySqlShop<W> {
    books: Books,
    client: RefCell<Conn>,
    runtime: Runtime,
    server: Server,
    _which: PhantomData<W>,
}

impl<W> MySqlShop<W> {
    async fn sell(&self, client: &mut Conn, keys: &[u64]) -> mysql_async::Result<Vec<Sighting>> {
        client.query_drop("START TRANSACTION").await?;
        let mut events = Vec::new();
        for key in keys {
            client.exec_drop("UPDATE stock SET version = version + 1 WHERE `key` = ?", (key,)).await?;
            let raised = client.exec_first("SELECT version FROM stock WHERE `key` = ?", (key,)).await?;
            let version: i64 = raised.unwrap();
            let id = Outbox::new().write(&mut *client, changed(*key, version)).await.unwrap().id;
            events.push(Sighting { id, key: key.to_string(), version: version.unsigned_abs() });
        }
        client.query_drop("COMMIT").await?;
        Ok(events)
    }
}

impl<W: Which> Shop for MySqlShop<W> {
    fn open() -> Option<Self> {
        let server = own(Options::of(W::KIND))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let config = MySqlConfig::new(server.url()).unwrap();
            MySqlStore::migrate(&config).await.unwrap();
            let mut client = config.client().await.unwrap();
            client.query_drop("USE test").await.unwrap();
            client.query_drop(MySqlStore::roles(&Ident::default()).unwrap()).await.unwrap();
            client.query_drop(TABLES).await.unwrap();
            client.exec_batch("INSERT INTO stock VALUES (?, 0)", (0..KEYS).map(|key| (key,))).await.unwrap();
            for (table, event) in WATCHED {
                let sql = format!(
                    "CREATE TRIGGER postrider.note_{table}_{event} AFTER {event} ON postrider.{table} FOR EACH ROW
                     INSERT INTO test.changes (what, relay) VALUES ('{table}', SUBSTRING_INDEX(USER(), '@', 1))"
                );
                client.query_drop(sql).await.unwrap();
            }
            client
        });
        let client = RefCell::new(client);
        Some(Self { books: Books::open(), client, runtime, server, _which: PhantomData })
    }

    fn books(&self) -> &Books {
        &self.books
    }

    /// Creates the user: a trigger can identify the relay only by its user.
    fn url_for(&self, relay: &str) -> String {
        let way = if W::KIND == Kind::MariaDb { "FOR" } else { "TO" };
        self.run(&format!(
            "CREATE USER '{relay}'@'127.0.0.1'; GRANT 'postrider_relay' TO '{relay}'@'127.0.0.1';
             SET DEFAULT ROLE 'postrider_relay' {way} '{relay}'@'127.0.0.1'"
        ));
        self.server.url_of(relay).replace("/test", "")
    }

    fn transaction(&self, keys: &[u64]) -> Vec<Sighting> {
        self.runtime.block_on(self.sell(&mut self.client.borrow_mut(), keys)).unwrap()
    }

    fn run(&self, sql: &str) {
        self.runtime.block_on(self.client.borrow_mut().query_drop(sql)).unwrap();
    }

    fn number(&self, sql: &str) -> i64 {
        self.runtime.block_on(self.client.borrow_mut().query_first(sql)).unwrap().unwrap()
    }

    fn end_lease(&self) {
        self.run("UPDATE postrider.leases SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND");
    }

    fn heard_of(&self, relay: &str) -> i64 {
        self.number(&format!(
            "SELECT CAST(COALESCE(SUM(count_star), 0) AS SIGNED)
             FROM performance_schema.events_statements_summary_by_user_by_event_name
             WHERE user = '{relay}'"
        ))
    }

    fn now_ms(&self) -> i64 {
        self.number("SELECT TIMESTAMPDIFF(MICROSECOND, '2000-01-01', UTC_TIMESTAMP(6)) DIV 1000")
    }

    fn lease_taken_ms(&self) -> i64 {
        self.number(
            "SELECT TIMESTAMPDIFF(MICROSECOND, '2000-01-01', acquired_at) DIV 1000 FROM postrider.leases",
        )
    }
}
