//! A new PostgreSQL database, with an outbox where the examples expect it, and a user that may only write.

use std::sync::Arc;

use postrider::Ident;
use postrider::store::Store;
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider_testkit::servers::postgres;
use tokio::sync::Mutex;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

/// An application with the rights of `postrider_writer` and those on its own table.
const WRITER: &str = "languages_writer";
const PASSWORD: &str = "only-in-tests";

/// Roles belong to the whole server, so one test at a time creates them.
static SETTING_UP: Mutex<()> = Mutex::const_new(());

pub(crate) fn is_available() -> bool {
    postgres::url().is_some()
}

pub(crate) struct Database {
    name: String,
    config: PostgresConfig,
    pub(crate) client: Client,
}

impl Database {
    pub(crate) async fn new(name: &str, tables: &str) -> Self {
        let _alone = SETTING_UP.lock().await;
        let name = format!("{name}_{}", std::process::id());
        let server = connect(&at("postgres")).await;
        server.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let mut url = postgres::url().unwrap().to_owned();
        url.truncate(url.rfind('/').unwrap() + 1);
        let config = PostgresConfig::new(&format!("{url}{name}")).unwrap();
        PostgresStore::migrate(&config).await.unwrap();
        let client = connect(&at(&name)).await;
        let setup = format!(
            "{roles}
             {tables}
             DO $$ BEGIN
                 IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{WRITER}') THEN
                     CREATE ROLE {WRITER} LOGIN PASSWORD '{PASSWORD}';
                 END IF;
             END $$;
             GRANT postrider_writer TO {WRITER};
             GRANT SELECT, INSERT, UPDATE ON orders TO {WRITER};",
            roles = PostgresStore::roles(&Ident::new("postrider").unwrap()).unwrap(),
        );
        client.batch_execute(&setup).await.unwrap();
        Self { name, config, client }
    }

    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        Arc::new(PostgresStore::connect(&self.config).await.unwrap())
    }

    pub(crate) fn writer_url(&self) -> String {
        let (host, port) = address();
        format!("postgres://{WRITER}:{PASSWORD}@{host}:{port}/{}", self.name)
    }

    pub(crate) fn writer_jdbc_url(&self) -> String {
        let (host, port) = address();
        format!("jdbc:postgresql://{host}:{port}/{}?user={WRITER}&password={PASSWORD}", self.name)
    }

    /// The number of committed events.
    pub(crate) async fn events(&self) -> i64 {
        self.client.query_one("SELECT count(*) FROM postrider.events", &[]).await.unwrap().get(0)
    }

    /// Id and version of every order.
    pub(crate) async fn orders(&self) -> Vec<(i64, i64)> {
        let rows = self.client.query("SELECT id, version FROM orders ORDER BY id", &[]).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    }

    /// Removes the database. On a server that was not started for the tests, only the roles stay.
    pub(crate) async fn remove(self) {
        let server = connect(&at("postgres")).await;
        server.batch_execute(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await.unwrap();
    }
}

/// Another database on the test server.
fn at(database: &str) -> Config {
    let mut config: Config = postgres::url().unwrap().parse().unwrap();
    config.dbname(database);
    config
}

fn address() -> (String, u16) {
    let config = at("postgres");
    let Some(Host::Tcp(host)) = config.get_hosts().first() else { panic!("the test server is not on TCP") };
    (host.clone(), config.get_ports().first().copied().unwrap_or(5432))
}

async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
