//! A schema of its own for every case, on the one server of the test process.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{Code, Error, Ident, Outbox, Result};
use postrider_testkit::servers::postgres;
use tokio_postgres::types::FromSqlOwned;
use tokio_postgres::{Client, NoTls};

pub(crate) struct Case {
    pub(crate) config: PostgresConfig,
    pub(crate) schema: Ident,
    /// A connection of the application.
    pub(crate) client: Client,
}

impl Case {
    pub(crate) fn is_available() -> bool {
        postgres::url().is_some()
    }

    /// An empty outbox. Cases run side by side on one server, and an open transaction of one delays the cheap
    /// proof of all; so the writers are listed at once.
    pub(crate) async fn new() -> Result<Self> {
        let case = Self::without_tables().await?;
        PostgresStore::migrate(&case.config).await?;
        Ok(case)
    }

    pub(crate) async fn without_tables() -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = Ident::new(&format!("case_{}_{number}", std::process::id()))?;
        let config = PostgresConfig::new(url()?)?.schema(schema.clone()).list_writers_after(Duration::ZERO);
        Ok(Self { config, schema, client: connect().await? })
    }

    /// One more connection of the application.
    pub(crate) async fn another(&self) -> Result<Client> {
        connect().await
    }

    pub(crate) fn outbox(&self) -> Outbox {
        Outbox::anonymous().schema(self.schema.clone())
    }

    /// Puts the name of the schema in.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", self.schema.as_str())
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(&self.sql(sql)).await.map_err(failed)
    }

    pub(crate) async fn one<T: FromSqlOwned>(&self, sql: &str) -> Result<T> {
        let row = self.client.query_one(&self.sql(sql), &[]).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    }
}

fn url() -> Result<&'static str> {
    postgres::url().ok_or_else(|| Error::new(Code::StoreFailed, "there is no server for the test"))
}

async fn connect() -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url()?, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}

pub(crate) fn failed(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Code::StoreFailed, "the test could not do its part").source(cause)
}
