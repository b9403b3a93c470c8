//! A new database for every case: the tables of the application, and those of a layout.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::mysql::{MySqlConfig, MySqlRowStore, MySqlStore};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore, PostgresStore};
use postrider::store::sqlite::{SqliteRowStore, SqliteStore};
use postrider::{Ident, Inbox, Outbox};
use postrider_testkit::servers::mysql::Kind;
use postrider_testkit::servers::postgres;
use tempfile::TempDir;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// A layout; `None` is the default one.
pub(crate) type Layout = Option<RowLayout>;

/// A database with the tables of the application and of a layout.
pub(crate) trait Place: Sized + Send + Sync + 'static {
    /// The layouts that it supports.
    const LAYOUTS: &'static [Layout];

    /// `None` if there is no such server here.
    fn create(layout: Layout) -> impl Future<Output = Option<Self>> + Send;

    fn outbox(&self) -> Outbox;

    /// The inbox next to it.
    fn inbox(&self) -> Inbox {
        Inbox::new()
    }

    /// Where a driver connects to.
    fn url(&self) -> &str;

    /// Replaces `{events}` and `{actions}` by the names of the tables.
    fn named(&self, sql: &str) -> String;

    /// Runs statements and returns the rows of the last one as texts. NULL is the empty text.
    fn rows(&self, sql: &str) -> impl Future<Output = Vec<Vec<String>>> + Send;

    /// The first value of a query.
    fn one(&self, sql: &str) -> impl Future<Output = String> + Send {
        async { self.rows(sql).await.into_iter().flatten().next().unwrap_or_default() }
    }
}

/// A number for the names of one case.
fn number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// The tables of the application; `id` is the type of a UUID.
fn tables(id: &str) -> String {
    format!(
        "CREATE TABLE wallets (id {id} NOT NULL PRIMARY KEY, balance BIGINT NOT NULL, version BIGINT NOT NULL);
         CREATE TABLE orders (id {id} NOT NULL PRIMARY KEY, wallet_id {id} NOT NULL, amount BIGINT NOT NULL,
                              version BIGINT NOT NULL);
         CREATE TABLE notes (id {id} NOT NULL PRIMARY KEY, text VARCHAR(255) NOT NULL, version BIGINT NOT NULL)"
    )
}

fn events_of(layout: Layout) -> &'static str {
    layout.map_or("events", RowLayout::table_name)
}

pub(crate) struct Sqlite {
    _folder: TempDir,
    path: PathBuf,
    url: String,
    layout: Layout,
}

impl Place for Sqlite {
    const LAYOUTS: &'static [Layout] = &[None, Some(RowLayout::OutboxEvents)];

    async fn create(layout: Layout) -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("shop.db");
        match layout {
            None => SqliteStore::migrate(&path).map(drop).unwrap(),
            Some(layout) => {
                let table = RowTable::new(layout);
                SqliteRowStore::migrate(&path, &table, RowExtras::default()).map(drop).unwrap();
            }
        }
        let url = format!("sqlite://{}", path.display());
        let place = Self { _folder: folder, path, url, layout };
        place.rows(&tables("BLOB")).await;
        Some(place)
    }

    fn outbox(&self) -> Outbox {
        match self.layout {
            None => Outbox::new(),
            Some(layout) => Outbox::new().table(RowTable::new(layout)),
        }
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn named(&self, sql: &str) -> String {
        let events = self.layout.map_or("postrider_events", RowLayout::table_name);
        sql.replace("{events}", events).replace("{actions}", "postrider_actions")
    }

    async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let db = rusqlite::Connection::open(&self.path).unwrap();
        db.busy_timeout(Duration::from_secs(60)).unwrap();
        let sql = self.named(sql);
        if !sql.trim_start().starts_with("SELECT") {
            db.execute_batch(&sql).unwrap();
            return Vec::new();
        }
        let mut statement = db.prepare(&sql).unwrap();
        let columns = statement.column_count();
        let text = |row: &rusqlite::Row<'_>| {
            (0..columns).map(|at| row.get_ref(at).map(sqlite_text)).collect::<Result<Vec<_>, _>>()
        };
        statement.query_map([], text).unwrap().collect::<Result<_, _>>().unwrap()
    }
}

fn sqlite_text(value: rusqlite::types::ValueRef<'_>) -> String {
    use rusqlite::types::ValueRef;
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

pub(crate) struct Postgres {
    url: String,
    layout: Layout,
}

impl Place for Postgres {
    const LAYOUTS: &'static [Layout] = &[
        None,
        Some(RowLayout::Eventlog),
        Some(RowLayout::EventOutbox),
        Some(RowLayout::Outbox),
        Some(RowLayout::OutboxEvents),
    ];

    async fn create(layout: Layout) -> Option<Self> {
        let server = postgres::url()?;
        let name = format!("actions_{}_{}", std::process::id(), number());
        postgres_rows(server, &format!("CREATE DATABASE {name}")).await;
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        let config = PostgresConfig::new(&url).unwrap();
        match layout {
            None => PostgresStore::migrate(&config).await.map(drop).unwrap(),
            Some(layout) => {
                let extras = RowExtras::default().handlers(layout == RowLayout::Eventlog);
                let table = RowTable::new(layout);
                PostgresRowStore::migrate(&config, &table, extras).await.map(drop).unwrap();
            }
        }
        let place = Self { url, layout };
        place.rows(&tables("uuid")).await;
        Some(place)
    }

    fn outbox(&self) -> Outbox {
        match self.layout {
            None => Outbox::new(),
            Some(layout) => Outbox::new().table(RowTable::new(layout)),
        }
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn named(&self, sql: &str) -> String {
        let schema = match self.layout {
            None => "postrider",
            Some(RowLayout::Eventlog) => "eventlog",
            Some(_) => "public",
        };
        let events = format!("{schema}.{}", events_of(self.layout));
        sql.replace("{events}", &events).replace("{actions}", "postrider.actions")
    }

    async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        postgres_rows(&self.url, &self.named(sql)).await
    }
}

async fn postgres_rows(url: &str, sql: &str) -> Vec<Vec<String>> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let messages = client.simple_query(sql).await.unwrap();
    drop(client);
    connection.await.unwrap().unwrap();
    let text = |message: SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(text).collect()
}

/// MySQL or MariaDB, as types.
pub(crate) trait ServerKind: Send + Sync + 'static {
    const KIND: Kind;
}

pub(crate) struct OnMySql;
pub(crate) struct OnMariaDb;

impl ServerKind for OnMySql {
    const KIND: Kind = Kind::MySql;
}

impl ServerKind for OnMariaDb {
    const KIND: Kind = Kind::MariaDb;
}

/// Three databases: the application's, the one with the events of a layout, and Postrider's.
pub(crate) struct MySqlPlace<K> {
    url: String,
    name: String,
    layout: Layout,
    _kind: std::marker::PhantomData<K>,
}

impl<K: ServerKind> MySqlPlace<K> {
    pub(crate) fn own(&self) -> Ident {
        Ident::new(&format!("{}_postrider", self.name)).unwrap()
    }

    /// The table of the layout, in a database that is not the application's.
    fn table(&self, layout: RowLayout) -> RowTable {
        RowTable::new(layout).in_schema(Ident::new(&format!("{}_log", self.name)).unwrap())
    }
}

impl<K: ServerKind> Place for MySqlPlace<K> {
    const LAYOUTS: &'static [Layout] =
        &[None, Some(RowLayout::Eventlog), Some(RowLayout::EventOutbox), Some(RowLayout::OutboxEvents)];

    async fn create(layout: Layout) -> Option<Self> {
        let server = K::KIND.url()?;
        let name = format!("actions_{}_{}", std::process::id(), number());
        let (start, _) = server.rsplit_once('/').unwrap();
        mysql_rows(server, &format!("CREATE DATABASE {name} CHARACTER SET utf8mb4; CREATE DATABASE {name}_log CHARACTER SET utf8mb4")).await;
        let url = format!("{start}/{name}");
        let place = Self { url, name, layout, _kind: std::marker::PhantomData };
        let config = MySqlConfig::new(server).unwrap().schema(place.own());
        match layout {
            None => MySqlStore::migrate(&config).await.map(drop).unwrap(),
            Some(layout) => {
                let extras = RowExtras::default().handlers(layout == RowLayout::Eventlog);
                MySqlRowStore::migrate(&config, &place.table(layout), extras).await.map(drop).unwrap();
            }
        }
        place.rows(&tables("BINARY(16)")).await;
        Some(place)
    }

    fn outbox(&self) -> Outbox {
        let outbox = Outbox::new().schema(self.own());
        match self.layout {
            None => outbox,
            Some(layout) => outbox.table(self.table(layout)),
        }
    }

    fn inbox(&self) -> Inbox {
        Inbox::new().schema(self.own())
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn named(&self, sql: &str) -> String {
        let schema = if self.layout.is_none() { "postrider" } else { "log" };
        let events = format!("{}_{schema}.{}", self.name, events_of(self.layout));
        sql.replace("{events}", &events).replace("{actions}", &format!("{}.actions", self.own().as_str()))
    }

    async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        mysql_rows(&self.url, &self.named(sql)).await
    }
}

async fn mysql_rows(url: &str, sql: &str) -> Vec<Vec<String>> {
    let mut conn = mysql_async::Conn::from_url(url).await.unwrap();
    let mut result = conn.query_iter(sql).await.unwrap();
    let mut rows: Vec<Vec<String>> = Vec::new();
    while !result.is_empty() {
        let found: Vec<mysql_async::Row> = result.collect().await.unwrap();
        rows = found.iter().map(mysql_texts).collect();
    }
    drop(result);
    conn.disconnect().await.unwrap();
    rows
}

fn mysql_texts(row: &mysql_async::Row) -> Vec<String> {
    let text = |at| match row.as_ref(at) {
        Some(mysql_async::Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(mysql_async::Value::NULL) | None => String::new(),
        Some(other) => other.as_sql(true),
    };
    (0..row.len()).map(text).collect()
}
