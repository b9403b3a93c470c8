//! A new database for every case, on one server of each kind per test process.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(crate) use crate::failed;
use mysql_async::Conn;
use mysql_async::prelude::{FromValue, Queryable};
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::{Event, Ident, Outbox, Position, Result};
use postrider_testkit::servers::mysql::Kind;
use tokio::sync::Mutex;

/// One of the two servers, as a type.
pub(crate) trait ServerKind: Send + Sync + 'static {
    const KIND: Kind;
    const NAME: &'static str;
}

pub(crate) struct MySql;
pub(crate) struct MariaDb;

impl ServerKind for MySql {
    const KIND: Kind = Kind::MySql;
    const NAME: &'static str = "MySQL";
}

impl ServerKind for MariaDb {
    const KIND: Kind = Kind::MariaDb;
    const NAME: &'static str = "MariaDB";
}

pub(crate) struct Case<W> {
    pub(crate) config: MySqlConfig,
    pub(crate) schema: Ident,
    /// A connection of the application.
    pub(crate) client: Mutex<Conn>,
    _which: PhantomData<W>,
}

impl<W: ServerKind> Case<W> {
    pub(crate) fn is_available() -> bool {
        W::KIND.url().is_some()
    }

    /// An empty outbox.
    pub(crate) async fn new() -> Result<Self> {
        let case = Self::without_tables().await?;
        MySqlStore::migrate(&case.config).await?;
        Ok(case)
    }

    pub(crate) async fn without_tables() -> Result<Self> {
        let url = W::KIND.url().ok_or_else(|| failed(std::io::Error::other("there is no server")))?;
        Self::at(url).await
    }

    /// The same on a server that only this test uses.
    pub(crate) async fn at(url: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = Ident::new(&format!("case_{}_{number}", std::process::id()))?;
        let config = MySqlConfig::new(url)?.schema(schema.clone()).check_rollbacks_after(Duration::ZERO);
        let client = Mutex::new(config.client().await?);
        let case = Self { config, schema, client, _which: PhantomData };
        case.run("DROP DATABASE IF EXISTS {schema}").await?;
        Ok(case)
    }

    pub(crate) async fn store(&self) -> Result<MySqlStore> {
        MySqlStore::connect(&self.config).await
    }

    /// Another connection of the application.
    pub(crate) async fn another(&self) -> Result<Conn> {
        self.config.client().await
    }

    /// Another connection of the application, with a transaction in which an event was written.
    pub(crate) async fn writing(&self, event: &str) -> Result<Conn> {
        let mut client = self.another().await?;
        client.query_drop("START TRANSACTION").await.map_err(failed)?;
        self.insert(&mut client, &[Event::new(event, "")]).await?;
        Ok(client)
    }

    /// Writes an event and commits it.
    pub(crate) async fn committed(&self, event: &str) -> Result<i64> {
        let positions = self.insert(&mut *self.client.lock().await, &[Event::new(event, "")]).await?;
        Ok(positions[0].get())
    }

    /// Runs statements on a connection of the application.
    pub(crate) async fn on(&self, client: &mut Conn, sql: &str) -> Result<()> {
        client.query_drop(self.sql(sql)).await.map_err(failed)
    }

    /// Inserts the name of the database.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", self.schema.as_str())
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        self.client.lock().await.query_drop(self.sql(sql)).await.map_err(failed)
    }

    pub(crate) async fn one<T: FromValue + Send + 'static>(&self, sql: &str) -> Result<T> {
        let value: Option<T> = self.client.lock().await.query_first(self.sql(sql)).await.map_err(failed)?;
        value.ok_or_else(|| failed(std::io::Error::other("no row")))
    }

    /// Writes events in the open transaction of the connection.
    pub(crate) async fn insert(&self, client: &mut Conn, events: &[Event]) -> Result<Vec<Position>> {
        let written = self.outbox().write_all(client, events.to_vec()).await?;
        Ok(written.into_iter().map(|written| written.position).collect())
    }

    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::anonymous().schema(self.schema.clone())
    }
}

/// The result of an action on a server of the testkit.
pub(crate) fn done<T>(result: Result<T, String>) -> Result<T> {
    result.map_err(|error| failed(std::io::Error::other(error)))
}

/// A test on each of the servers. Without a server, its test passes.
macro_rules! case {
    ($(#[$note:meta])* async fn $name:ident($case:pat) $body:block) => {
        mod $name {
            use super::*;

            async fn on<W: crate::mysql::log::case::ServerKind>() -> postrider::Result<()> {
                if !crate::mysql::log::case::Case::<W>::is_available() {
                    return Ok(());
                }
                let $case = crate::mysql::log::case::Case::<W>::new().await?;
                $body
                Ok(())
            }

            $(#[$note])*
            #[tokio::test]
            async fn on_mysql() -> postrider::Result<()> {
                on::<crate::mysql::log::case::MySql>().await
            }

            $(#[$note])*
            #[tokio::test]
            async fn on_mariadb() -> postrider::Result<()> {
                on::<crate::mysql::log::case::MariaDb>().await
            }
        }
    };
}
pub(crate) use case;

pub(crate) async fn is_mariadb(client: &mut Conn) -> Result<bool> {
    let version: Option<String> = client.query_first("SELECT VERSION()").await.map_err(failed)?;
    Ok(version.is_some_and(|version| version.contains("MariaDB")))
}

/// A connection with the settings of the server, including its time zone.
pub(crate) async fn plain<W: ServerKind>(_: &Case<W>) -> Result<Conn> {
    Conn::from_url(W::KIND.url().unwrap_or_default()).await.map_err(failed)
}
