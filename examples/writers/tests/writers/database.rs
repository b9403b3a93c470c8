//! An empty outbox of its own, in one of the databases, and a table of orders next to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mysql_async::prelude::Queryable;
use postrider::ledger::Progress;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::sqlite::SqliteStore;
use postrider::store::{Budget, Claimed, Store};
use postrider::{Ident, Inbox, Outbox, StoredEvent};
use postrider_testkit::servers::postgres;

use crate::Engine;

const ORDERS: &str = "CREATE TABLE orders (id BIGINT PRIMARY KEY, cents BIGINT NOT NULL)";

pub(crate) struct Database {
    pub(crate) engine: Engine,
    /// For the user that may do everything. On MySQL and PostgreSQL the database has the schema's name.
    pub(crate) url: String,
    pub(crate) schema: Ident,
    folder: tempfile::TempDir,
}

impl Database {
    /// `None`, with a line that says why, if there is no such server.
    pub(crate) async fn new(engine: Engine) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = Ident::new(&format!("writers_{}_{number}", std::process::id())).unwrap();
        Self::named(engine, schema).await
    }

    /// With this name, which on MySQL is that of the outbox too.
    pub(crate) async fn named(engine: Engine, schema: Ident) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let server = match engine {
            Engine::Postgres => postgres::url()?,
            Engine::MySql(kind) => kind.url()?,
            Engine::Sqlite => "",
        };
        let url = match engine {
            Engine::Sqlite => format!("sqlite://{}?mode=rwc", folder.path().join("shop.db").display()),
            _ => server[..=server.rfind('/').unwrap()].to_owned() + schema.as_str(),
        };
        let database = Self { engine, url, schema, folder };
        database.at(server, &format!("CREATE DATABASE {}", database.schema.as_str())).await;
        match engine {
            Engine::Postgres => _ = PostgresStore::migrate(&database.postgres()).await.unwrap(),
            Engine::MySql(_) => _ = MySqlStore::migrate(&database.mysql()).await.unwrap(),
            Engine::Sqlite => _ = SqliteStore::migrate(database.file()).unwrap(),
        }
        database.run(ORDERS).await;
        Some(database)
    }

    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::anonymous().schema(self.schema.clone())
    }

    pub(crate) fn inbox(&self) -> Inbox {
        Inbox::new().schema(self.schema.clone())
    }

    /// Every committed event, in the order of positions.
    pub(crate) async fn events(&self) -> Vec<StoredEvent> {
        let store: Arc<dyn Store> = match self.engine {
            Engine::Postgres => Arc::new(PostgresStore::connect(&self.postgres()).await.unwrap()),
            Engine::MySql(_) => Arc::new(MySqlStore::connect(&self.mysql()).await.unwrap()),
            Engine::Sqlite => Arc::new(SqliteStore::open(self.file()).unwrap()),
        };
        let mut claimer = store.claimer(&Progress::default());
        let mut events = Vec::new();
        loop {
            let claimed = claimer.claim(Budget::new(10_000, 1 << 24)).await.unwrap();
            let Claimed::Page(page) = claimed else { panic!("the history did not change") };
            events.extend(page.events);
            if !page.more_at_once {
                return events;
            }
        }
    }

    /// Lets the database itself refuse events of this type.
    pub(crate) async fn refuse(&self, event_type: &str) {
        let (table, refuse) = match self.engine {
            Engine::Sqlite => ("postrider_events".to_owned(), "SELECT RAISE(ABORT, 'refused')"),
            _ => (format!("{}.events", self.schema.as_str()), "SIGNAL SQLSTATE '45000'"),
        };
        let (when, then, end) = match self.engine {
            Engine::Sqlite => (" WHEN NEW.type = ", " BEGIN ", "; END"),
            _ => (" BEGIN IF NEW.type = ", " THEN ", "; END IF; END"),
        };
        let head = format!("CREATE TRIGGER refusing BEFORE INSERT ON {table} FOR EACH ROW");
        self.run(&format!("{head}{when}'{event_type}'{then}{refuse}{end}")).await;
    }

    pub(crate) async fn drop_tables(&self) {
        match self.engine {
            Engine::Postgres => self.run(&format!("DROP SCHEMA {} CASCADE", self.schema.as_str())).await,
            Engine::MySql(_) => {
                self.run(&format!("DROP TABLE {}.events", self.schema.as_str())).await;
                self.run(&format!("DROP TABLE {}.inbox", self.schema.as_str())).await;
            }
            Engine::Sqlite => {
                self.run("DROP VIEW postrider_events_json; DROP TABLE postrider_events; DROP TABLE postrider_inbox")
                    .await;
            }
        }
    }

    /// The ids of all orders.
    pub(crate) async fn orders(&self) -> Vec<i64> {
        let question = "SELECT id FROM orders ORDER BY id";
        match self.engine {
            Engine::Postgres => {
                let rows = client(&self.url).await.query(question, &[]).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
            Engine::MySql(_) => {
                let mut connection = mysql_async::Conn::from_url(&self.url).await.unwrap();
                connection.query(question).await.unwrap()
            }
            Engine::Sqlite => {
                let connection = rusqlite::Connection::open(self.file()).unwrap();
                let mut statement = connection.prepare(question).unwrap();
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
            }
        }
    }

    pub(crate) async fn remove(self) {
        let server = match self.engine {
            Engine::Postgres => postgres::url().unwrap(),
            Engine::MySql(kind) => kind.url().unwrap(),
            Engine::Sqlite => "",
        };
        let force = if self.engine == Engine::Postgres { " WITH (FORCE)" } else { "" };
        self.at(server, &format!("DROP DATABASE {}{force}", self.schema.as_str())).await;
    }

    /// The path of a SQLite database.
    pub(crate) fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("shop.db")
    }

    pub(crate) async fn run(&self, sql: &str) {
        match self.engine {
            Engine::Sqlite => rusqlite::Connection::open(self.file()).unwrap().execute_batch(sql).unwrap(),
            _ => self.at(&self.url, sql).await,
        }
    }

    /// Does nothing for SQLite, which has no server.
    async fn at(&self, url: &str, sql: &str) {
        match self.engine {
            Engine::Postgres => client(url).await.batch_execute(sql).await.unwrap(),
            Engine::MySql(_) => {
                let mut connection = mysql_async::Conn::from_url(url).await.unwrap();
                connection.query_drop(sql).await.unwrap();
                connection.disconnect().await.unwrap();
            }
            Engine::Sqlite => {}
        }
    }

    fn postgres(&self) -> PostgresConfig {
        PostgresConfig::new(&self.url).unwrap().schema(self.schema.clone())
    }

    fn mysql(&self) -> MySqlConfig {
        MySqlConfig::new(&self.url).unwrap().schema(self.schema.clone())
    }
}

async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
