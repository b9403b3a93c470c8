//! The server faults on PostgreSQL, and those that only PostgreSQL has: a standby, a pooler.

mod pooler;
mod shards;
mod standby;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::{Start, Store};
use postrider::{Event, Ident, Outbox, Result};
use postrider_testkit::servers::Controlled;
use postrider_testkit::servers::postgres::{Options, Server, own};
use postrider_testkit::verify::Sighting;
use tokio_postgres::{Client, NoTls};

use super::case::failed;
use crate::server_faults::{Change, LONG, POLL_EVERY, RELAY, Recorder, Setup, Target, WRITER, halted};

crate::server_faults::server_fault_tests!(PostgresServer);

/// A server with an outbox, and its users.
struct PostgresServer {
    server: Arc<Server>,
}

impl PostgresServer {
    /// A connection of the superuser, for operations that no application has.
    async fn client(&self) -> Result<Client> {
        connect(self.server.url()).await
    }

    async fn run(&self, sql: &str) -> Result<()> {
        self.client().await?.batch_execute(sql).await.map_err(failed)
    }

    fn at(&self, to: Target) -> Result<PostgresConfig> {
        let url = self.server.url_of(to.user.unwrap_or(RELAY));
        let url = match to.port {
            Some(port) => url.replace(&format!(":{}/", self.server.port()), &format!(":{port}/")),
            None => url,
        };
        let mut config = PostgresConfig::new(&format!("{url}?connect_timeout=1"))?;
        if let Some(schema) = to.schema {
            config = config.schema(schema);
        }
        if let Some(limit) = to.answer_within {
            config = config.answer_within(limit);
        }
        Ok(config)
    }
}

impl crate::server_faults::TestServer for PostgresServer {
    const NO_CONNECTION: [&'static str; 2] = ["too many connections", "connection slots"];
    const WRONG_PASSWORD: &'static str = "password authentication failed";

    async fn new(setup: Setup) -> Result<Option<Self>> {
        let options = match setup {
            Setup::Plain => Options::default(),
            Setup::Passwords => Options::default().asks_passwords(),
            Setup::FewConnections => {
                Options::default().setting("max_connections=12").setting("superuser_reserved_connections=3")
            }
            Setup::SmallDisk => Options::default().small_disk(),
        };
        let Some(server) = tokio::task::block_in_place(|| own(options)) else { return Ok(None) };
        let test_server = Self { server: Arc::new(server) };
        PostgresStore::migrate(&PostgresConfig::new(test_server.server.url())?).await?;
        test_server.run(&PostgresStore::roles(&Ident::default())?).await?;
        // Relays also have the role that a comment of the script recommends.
        test_server
            .run(
                "CREATE ROLE faults_relay LOGIN PASSWORD 'secret' IN ROLE postrider_relay, pg_read_all_stats;
                 CREATE ROLE faults_writer LOGIN PASSWORD 'secret' IN ROLE postrider_writer;
                 CREATE ROLE others LOGIN",
            )
            .await?;
        Ok(Some(test_server))
    }

    fn process(&self) -> Arc<dyn Controlled> {
        self.server.clone()
    }

    async fn change(&self, change: Change) -> Result<()> {
        let statements: &[&str] = match change {
            Change::ReadOnly => {
                &["ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"]
            }
            Change::Writable => &[
                "SET default_transaction_read_only = off",
                "ALTER SYSTEM RESET default_transaction_read_only",
                "SELECT pg_reload_conf()",
            ],
            Change::LastEventsGone => &["DELETE FROM postrider.events WHERE position > 5;
                 SELECT setval('postrider.events_position_seq', 5)"],
            Change::CounterReset => {
                &["TRUNCATE postrider.events; ALTER SEQUENCE postrider.events_position_seq RESTART WITH 6"]
            }
            Change::OneConnection => {
                &["CREATE ROLE single LOGIN PASSWORD 'secret' CONNECTION LIMIT 1 IN ROLE postrider_relay"]
            }
            Change::MoreConnections => &["ALTER ROLE single CONNECTION LIMIT 10"],
            Change::SettlingDenied => &["REVOKE UPDATE ON postrider.subscriptions FROM postrider_relay"],
            Change::SettlingAllowed => &["GRANT UPDATE ON postrider.subscriptions TO postrider_relay"],
            Change::PasswordChanged => &["ALTER ROLE faults_relay PASSWORD 'another'"],
            Change::PasswordAsBefore => &["ALTER ROLE faults_relay PASSWORD 'secret'"],
            Change::RelayCut => &[
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'faults_relay'",
            ],
        };
        let client = self.client().await?;
        for statement in statements {
            client.batch_execute(statement).await.map_err(failed)?;
        }
        Ok(())
    }

    fn store(&self, to: Target) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PostgresStore::unconnected(&self.at(to)?)))
    }

    async fn connect(&self, to: Target) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PostgresStore::connect(&self.at(to)?).await?))
    }

    async fn commit(&self, events: Vec<Event>) -> Result<()> {
        commit(&connect(&self.server.url_of(WRITER)).await?, events).await
    }

    async fn commit_as_administrator(&self, events: Vec<Event>) -> Result<()> {
        let client = self.client().await?;
        // Independent of the last command for the server, and of whether it was executed yet.
        client.batch_execute("SET default_transaction_read_only = off").await.map_err(failed)?;
        commit(&client, events).await
    }

    fn write_on(&self, stop: Arc<AtomicBool>) -> impl Future<Output = ()> + Send + 'static {
        let url = self.server.url_of(WRITER);
        async move {
            while !stop.load(Ordering::Relaxed) {
                if let Ok(client) = connect(&url).await {
                    while !stop.load(Ordering::Relaxed)
                        && commit(&client, crate::server_faults::some(1)).await.is_ok()
                    {}
                }
                tokio::time::sleep(POLL_EVERY).await;
            }
        }
    }

    async fn committed(&self) -> Result<Vec<Sighting>> {
        let sql = "SELECT id, key, row_number() OVER (PARTITION BY key ORDER BY position)
                   FROM postrider.events ORDER BY position";
        let rows = self.client().await?.query(sql, &[]).await.map_err(failed)?;
        let sighting = |row: &tokio_postgres::Row| Sighting {
            id: row.get(0),
            key: row.get(1),
            version: row.get::<_, i64>(2).unsigned_abs(),
        };
        Ok(rows.iter().map(sighting).collect())
    }

    async fn take_all_connections(&self) -> Vec<Box<dyn Any>> {
        let mut taken: Vec<Box<dyn Any>> = Vec::new();
        while let Ok(client) = connect(&self.server.url_of("others")).await {
            taken.push(Box::new(client));
        }
        taken
    }
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}

async fn commit(client: &Client, events: Vec<Event>) -> Result<()> {
    for event in events {
        Outbox::anonymous().write(client, event).await?;
    }
    Ok(())
}
