//! PostgreSQL, with `tokio-postgres`.

use std::sync::Arc;

use postrider::adopt::AdoptSource;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::postgres::{PostgresConfig, PostgresRowStore, PostgresStore};
use postrider::{Event, Ident, Outbox, Result};
use postrider_testkit::servers::postgres;
use tokio_postgres::{Client, NoTls};

use crate::adopt::server::Driver;
use crate::failed;

pub(crate) struct PostgresDriver;

fn config(url: &str, schema: Ident) -> Result<PostgresConfig> {
    Ok(PostgresConfig::new(url)?.schema(schema))
}

impl Driver for PostgresDriver {
    type Client = Client;

    const CREATE_SCHEMA: &'static str = "CREATE SCHEMA";
    const BEGIN: &'static str = "BEGIN";

    fn url() -> Option<&'static str> {
        postgres::url()
    }

    async fn connect(url: &str) -> Result<Client> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
        tokio::spawn(connection);
        Ok(client)
    }

    async fn run(client: &mut Client, sql: &str) -> Result<()> {
        client.batch_execute(sql).await.map_err(failed)
    }

    async fn one(client: &mut Client, sql: &str) -> Result<i64> {
        client.query_one(sql, &[]).await.map_err(failed)?.try_get(0).map_err(failed)
    }

    async fn write(client: &mut Client, to: &Outbox, events: Vec<Event>) -> Result<()> {
        to.write_all(&*client, events).await.map(|_| ())
    }

    async fn migrate_rows(url: &str, ledger: Ident, table: &RowTable) -> Result<()> {
        let extras = RowExtras::default().handlers(table.layout() == RowLayout::Eventlog);
        PostgresRowStore::migrate(&config(url, ledger)?, table, extras).await.map(|_| ())
    }

    async fn migrate_log(url: &str, schema: Ident) -> Result<()> {
        PostgresStore::migrate(&config(url, schema)?).await.map(|_| ())
    }

    async fn rows(url: &str, ledger: Ident, table: &RowTable) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(PostgresRowStore::connect(&config(url, ledger)?, table).await?))
    }

    async fn log(url: &str, schema: Ident) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(PostgresStore::connect(&config(url, schema)?).await?))
    }

    fn rename_table(schema: &Ident, from: &str, to: &str) -> String {
        format!("ALTER TABLE {}.{from} RENAME TO {to}", schema.as_str())
    }
}
