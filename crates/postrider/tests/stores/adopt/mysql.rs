//! Both on one MySQL or MariaDB server, in databases of their own.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::adopt::AdoptSource;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::mysql::{MySqlConfig, MySqlRowStore, MySqlStore};
use postrider::{Event, Ident, Outbox, Result};
use postrider_testkit::servers::mysql::Kind;
use tokio::sync::Mutex;

use crate::adopt::network::OnServer;
use crate::adopt::stage::{ATTEMPTS_MAX, Late, Stage, port};
use crate::failed;

/// One of the two servers, as a type.
pub(crate) trait Which: Send + Sync + 'static {
    const KIND: Kind;
}

pub(crate) struct OfMySql;
pub(crate) struct OfMariaDb;

impl Which for OfMySql {
    const KIND: Kind = Kind::MySql;
}

impl Which for OfMariaDb {
    const KIND: Kind = Kind::MariaDb;
}

pub(crate) struct Server<W> {
    url: &'static str,
    /// The database with the table; the others are called after it.
    schema: String,
    table: RowTable,
    client: Mutex<Conn>,
    _which: PhantomData<W>,
}

impl<W> Server<W> {
    fn config(&self, ending: &str) -> Result<MySqlConfig> {
        self.config_at(port(self.url), ending)
    }

    fn config_at(&self, to: u16, ending: &str) -> Result<MySqlConfig> {
        let schema = Ident::new(&format!("{}{ending}", self.schema))?;
        let url = self.url.replace(&format!(":{}", port(self.url)), &format!(":{to}"));
        Ok(MySqlConfig::new(&url)?.schema(schema).list_writers_after(Duration::ZERO))
    }

    fn sql(&self, text: &str) -> String {
        let schema = &self.schema;
        text.replace("{t}", &format!("{schema}.{}", self.table.layout().name()))
            .replace("{events}", &format!("{schema}_log.events"))
            .replace("{parked}", &format!("{schema}_log.parked"))
            .replace("{notes}", &format!("{schema}_ledger.row_notes"))
            .replace("{leases of log}", &format!("{schema}_log.leases"))
            .replace("{leases of rows}", &format!("{schema}_ledger.leases"))
            .replace("{never}", "'2000-01-01'")
    }
}

impl<W: Which> Stage for Server<W> {
    async fn new(layout: RowLayout) -> Result<Option<Self>> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Some(url) = W::KIND.url() else { return Ok(None) };
        let schema = format!("adopt_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let table = RowTable::new(layout)?.in_schema(Ident::new(&schema)?).max_attempts(ATTEMPTS_MAX);
        let mut client = MySqlConfig::new(url)?.client().await?;
        client.query_drop(format!("CREATE DATABASE {schema}")).await.map_err(failed)?;
        let stage = Self { url, schema, table, client: Mutex::new(client), _which: PhantomData };
        MySqlRowStore::migrate(&stage.config("_ledger")?, &stage.table, RowExtras::default()).await?;
        MySqlStore::migrate(&stage.config("_log")?).await?;
        Ok(Some(stage))
    }

    fn layout(&self) -> RowLayout {
        self.table.layout()
    }

    async fn rows(&self) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(MySqlRowStore::connect(&self.config("_ledger")?, &self.table).await?))
    }

    async fn log(&self) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(MySqlStore::connect(&self.config("_log")?).await?))
    }

    fn to_rows(&self) -> Outbox {
        Outbox::anonymous().rows(self.table.clone())
    }

    fn to_log(&self) -> Outbox {
        Outbox::anonymous().schema(Ident::new(&format!("{}_log", self.schema)).unwrap())
    }

    async fn write(&self, to: &Outbox, events: Vec<Event>) -> Result<()> {
        to.write_all(&mut *self.client.lock().await, events).await.map(|_| ())
    }

    async fn run(&self, text: &str) -> Result<()> {
        self.client.lock().await.query_drop(self.sql(text)).await.map_err(failed)
    }

    async fn one(&self, text: &str) -> Result<i64> {
        let value: Option<i64> =
            self.client.lock().await.query_first(self.sql(text)).await.map_err(failed)?;
        value.ok_or_else(|| failed(std::io::Error::other("no row")))
    }

    async fn hide_log(&self, is_hidden: bool) -> Result<()> {
        let (from, to) = if is_hidden { ("events", "hidden") } else { ("hidden", "events") };
        self.run(&format!("RENAME TABLE {0}_log.{from} TO {0}_log.{to}", self.schema)).await
    }

    async fn write_late(&self, event: Event) -> Result<Late> {
        let mut client = MySqlConfig::new(self.url)?.client().await?;
        client.query_drop("START TRANSACTION").await.map_err(failed)?;
        self.to_rows().write(&mut client, event).await?;
        Ok(Box::pin(async move { client.query_drop("COMMIT").await.map_err(failed) }))
    }
}

impl<W: Which> OnServer for Server<W> {
    fn port(&self) -> u16 {
        port(self.url)
    }

    async fn rows_at(&self, port: u16) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(MySqlRowStore::connect(&self.config_at(port, "_ledger")?, &self.table).await?))
    }

    async fn log_at(&self, port: u16) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(MySqlStore::connect(&self.config_at(port, "_log")?).await?))
    }
}
