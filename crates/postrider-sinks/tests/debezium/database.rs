//! A private server with the tables of `eventlog`, and a connection to it that is the same for all databases.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider_testkit::servers::mysql::{self, Kind};
use postrider_testkit::servers::postgres;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::events::{HANDLERS, Written};
use crate::settings;

/// How long the slot may take: a heartbeat of the connector, and a flush of the worker's offsets.
const RELEASE_MAX: Duration = Duration::from_secs(60);
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The tables of `eventlog`: events, and notifications. The fan-out adds its index.
const POSTGRES_TABLES: [&str; 2] = [
    include_str!("../../../postrider/src/store/postgres/row_state/eventlog.sql"),
    include_str!("../../../postrider/src/store/postgres/row_state/event_notifications.sql"),
];
const MYSQL_TABLES: [&str; 2] = [
    include_str!("../../../postrider/src/store/mysql/row_state/eventlog.sql"),
    include_str!("../../../postrider/src/store/mysql/row_state/event_notifications.sql"),
];

/// The type of ids on MySQL, and on MariaDB.
const ID_TYPE: &str = "/*!80000 CHAR(36) CHARACTER SET ascii */ /*M! UUID */";

/// A server, and everything in which the databases differ.
pub(crate) struct Database {
    /// Takes the place of `shop` in the settings: the prefix of the topics.
    pub(crate) name: &'static str,
    server: Server,
    tables: String,
    rights: &'static str,
    connector: &'static str,
    /// Topics besides those of the events.
    pub(crate) other_topics: &'static [&'static str],
    /// Whether Debezium shifts ids that end with a zero byte: the server leaves that byte out of its binary log, and the
    /// connector adds it at the wrong end.
    pub(crate) shifts_ids: bool,
}

enum Server {
    Postgres(postgres::Server),
    MySql(mysql::Server),
}

impl Database {
    /// `None`, with a line that contains the reason, if there is no such server.
    pub(crate) async fn postgres(name: &'static str, version: Option<&str>) -> Option<Self> {
        let options = postgres::Options::default().setting("wal_level=logical").asks_passwords();
        let options = version.into_iter().fold(options, postgres::Options::version);
        let server = Server::Postgres(postgres::own(options)?);
        let mut connection = server.connect("postgres").await;
        connection.run(&format!("CREATE DATABASE {name}")).await;
        let version: u32 = connection.texts("SHOW server_version_num").await[0].parse().unwrap();
        Some(Self {
            name,
            server,
            tables: tables(POSTGRES_TABLES),
            rights: if version < 150_000 { settings::POSTGRES_14_SQL } else { settings::POSTGRES_SQL },
            connector: settings::POSTGRES,
            other_topics: &[],
            shifts_ids: false,
        })
    }

    /// As [`Database::postgres`].
    pub(crate) fn mysql() -> Option<Self> {
        Self::with_binlog(Kind::MySql, settings::MYSQL, settings::MYSQL_SQL)
    }

    /// As [`Database::postgres`]. The ids have the type `UUID`.
    pub(crate) fn mariadb() -> Option<Self> {
        let database = Self::with_binlog(Kind::MariaDb, settings::MARIADB, settings::MARIADB_SQL)?;
        Some(Self { shifts_ids: true, ..database })
    }

    /// As [`Database::mariadb`], with the types of MySQL.
    pub(crate) fn mariadb_with_text_ids() -> Option<Self> {
        let database = Self::with_binlog(Kind::MariaDb, settings::MARIADB, settings::MARIADB_SQL)?;
        let tables = database.tables.replace(ID_TYPE, "CHAR(36) CHARACTER SET ascii");
        Some(Self { name: "mariadb_text", tables, ..database })
    }

    fn with_binlog(kind: Kind, connector: &'static str, rights: &'static str) -> Option<Self> {
        let server = mysql::own(mysql::Options::of(kind).setting("binlog_format=ROW"))?;
        Some(Self {
            name: kind.name(),
            server: Server::MySql(server),
            tables: tables(MYSQL_TABLES),
            rights,
            connector,
            other_topics: &["schema-history"],
            shifts_ids: false,
        })
    }

    /// Creates the tables, and Debezium's user with the SQL of the page.
    pub(crate) async fn create_tables(&self) {
        let mut connection = self.connect().await;
        connection.run(&self.tables).await;
        connection.run(&self.rights.replace("shop", self.name)).await;
    }

    pub(crate) async fn connect(&self) -> Connection {
        self.server.connect(self.name).await
    }

    /// The address for a relay, if it is PostgreSQL.
    pub(crate) fn postgres_url(&self) -> Option<String> {
        match &self.server {
            Server::Postgres(server) => Some(database_url(server, self.name)),
            Server::MySql(_) => None,
        }
    }

    /// The address for a relay, on MySQL and MariaDB.
    pub(crate) fn mysql_url(&self) -> &str {
        match &self.server {
            Server::MySql(server) => server.url(),
            Server::Postgres(_) => "",
        }
    }

    /// The connector for this database, as Kafka Connect takes it.
    pub(crate) fn connector(&self, brokers: &str) -> String {
        let port = match &self.server {
            Server::Postgres(server) => server.port(),
            Server::MySql(server) => server.port(),
        };
        settings::connector(self.connector, self.name, port, brokers)
    }

    /// Deletes all events of a type without handlers, as retention does. Debezium has a consistent snapshot by now.
    pub(crate) async fn delete_shipped(&self) {
        self.connect().await.run("DELETE FROM eventlog.events WHERE event_type = 'OrderShipped'").await;
    }

    /// Events of handled types are delivered and have one notification per handler; the others have none.
    pub(crate) async fn assert_fanned_out(&self, written: &[Written]) {
        let mut connection = self.connect().await;
        let mut count = async |sql: &str| connection.texts(sql).await[0].parse::<usize>().unwrap();
        let of_type =
            |event_type: &str| written.iter().filter(|event| event.event_type == event_type).count();
        let mut delivered: Vec<&str> = HANDLERS.iter().map(|(event_type, _)| *event_type).collect();
        assert_eq!(
            count("SELECT count(*) FROM eventlog.event_notifications").await,
            delivered.iter().map(|event_type| of_type(event_type)).sum::<usize>()
        );
        delivered.dedup();
        assert_eq!(
            count("SELECT count(*) FROM eventlog.events WHERE delivered = TRUE").await,
            delivered.iter().map(|event_type| of_type(event_type)).sum::<usize>()
        );
        assert!(count("SELECT count(*) FROM eventlog.events WHERE event_type IS NULL").await > 0);
    }

    /// The replication slot of PostgreSQL follows a log that has no new events.
    pub(crate) async fn assert_log_is_released(&self) {
        let Server::Postgres(_) = self.server else { return };
        let mut connection = self.connect().await;
        connection.run("CREATE TABLE other AS SELECT generate_series(1, 1000)").await;
        let end = connection.texts("SELECT pg_current_wal_lsn()").await.remove(0);
        let query = format!("SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots");
        let released = async {
            let mut checks = tokio::time::interval(CHECK_EVERY);
            while connection.texts(&query).await != ["t"] {
                checks.tick().await;
            }
        };
        tokio::time::timeout(RELEASE_MAX, released).await.expect("the slot does not move");
    }
}

impl Server {
    async fn connect(&self, database: &str) -> Connection {
        match self {
            Self::Postgres(server) => {
                let url = database_url(server, database);
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
                tokio::spawn(connection);
                Connection::Postgres(client)
            }
            Self::MySql(server) => Connection::MySql(Conn::from_url(server.url()).await.unwrap()),
        }
    }
}

/// The statements that create the tables in the schema `eventlog`, which is a database on MySQL and MariaDB.
fn tables([events, notifications]: [&str; 2]) -> String {
    let events = events.replace("{table}", "eventlog.events").replace("{name}", "events");
    let notifications = notifications.replace("{notifications}", "eventlog.event_notifications");
    format!("CREATE SCHEMA IF NOT EXISTS eventlog;\n{events}\n{notifications}")
}

fn database_url(server: &postgres::Server, database: &str) -> String {
    let (server, _) = server.url().rsplit_once('/').unwrap();
    format!("{server}/{database}")
}

pub(crate) enum Connection {
    Postgres(Client),
    MySql(Conn),
}

impl Connection {
    /// Runs statements.
    pub(crate) async fn run(&mut self, statements: &str) {
        match self {
            Self::Postgres(client) => client.batch_execute(statements).await.unwrap(),
            Self::MySql(connection) => connection.query_drop(statements).await.unwrap(),
        }
    }

    /// The first column of a query, as text.
    pub(crate) async fn texts(&mut self, query: &str) -> Vec<String> {
        match self {
            Self::Postgres(client) => {
                let text = |message: SimpleQueryMessage| match message {
                    SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                    _ => None,
                };
                client.simple_query(query).await.unwrap().into_iter().filter_map(text).collect()
            }
            Self::MySql(connection) => connection.query(query).await.unwrap(),
        }
    }
}
