//! MySQL and MariaDB, with `mysql_async`.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::adopt::AdoptSource;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::mysql::{MySqlConfig, MySqlRowStore, MySqlStore};
use postrider::{Event, Ident, Outbox, Result};

use crate::adopt::server::Driver;
use crate::failed;
use crate::mysql::log::case::ServerKind;

pub(crate) struct MySqlDriver<W>(PhantomData<W>);

fn config(url: &str, schema: Ident) -> Result<MySqlConfig> {
    Ok(MySqlConfig::new(url)?.schema(schema).check_rollbacks_after(Duration::ZERO))
}

impl<W: ServerKind> Driver for MySqlDriver<W> {
    type Client = Conn;

    const CREATE_SCHEMA: &'static str = "CREATE DATABASE";
    const BEGIN: &'static str = "START TRANSACTION";

    fn url() -> Option<&'static str> {
        W::KIND.url()
    }

    async fn connect(url: &str) -> Result<Conn> {
        MySqlConfig::new(url)?.client().await
    }

    async fn run(client: &mut Conn, sql: &str) -> Result<()> {
        client.query_drop(sql).await.map_err(failed)
    }

    async fn one(client: &mut Conn, sql: &str) -> Result<i64> {
        let value: Option<i64> = client.query_first(sql).await.map_err(failed)?;
        value.ok_or_else(|| failed(std::io::Error::other("no row")))
    }

    async fn write(client: &mut Conn, to: &Outbox, events: Vec<Event>) -> Result<()> {
        to.write_all(client, events).await.map(|_| ())
    }

    async fn migrate_rows(url: &str, ledger: Ident, table: &RowTable) -> Result<()> {
        let extras = RowExtras::default().handlers(table.layout() == RowLayout::Eventlog);
        MySqlRowStore::migrate(&config(url, ledger)?, table, extras).await.map(|_| ())
    }

    async fn migrate_log(url: &str, schema: Ident) -> Result<()> {
        MySqlStore::migrate(&config(url, schema)?).await.map(|_| ())
    }

    async fn rows(url: &str, ledger: Ident, table: &RowTable) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(MySqlRowStore::connect(&config(url, ledger)?, table).await?))
    }

    async fn log(url: &str, schema: Ident) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(MySqlStore::connect(&config(url, schema)?).await?))
    }

    fn rename_table(schema: &Ident, from: &str, to: &str) -> String {
        let schema = schema.as_str();
        format!("RENAME TABLE {schema}.{from} TO {schema}.{to}")
    }
}
