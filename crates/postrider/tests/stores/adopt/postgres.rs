//! Both in one PostgreSQL database, in schemas of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use postrider::adopt::AdoptSource;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore, PostgresStore, RowExtras};
use postrider::{Event, Ident, Outbox, Result};
use postrider_testkit::servers::postgres;
use tokio_postgres::{Client, NoTls};

use crate::adopt::network::OnServer;
use crate::adopt::stage::{ATTEMPTS_MAX, Late, Stage, port};
use crate::failed;

pub(crate) struct Postgres {
    url: &'static str,
    /// The schema with the table; the others are called after it.
    schema: String,
    table: RowTable,
    client: Client,
}

impl Postgres {
    fn config(&self, ending: &str) -> Result<PostgresConfig> {
        self.config_at(self.port(), ending)
    }

    fn config_at(&self, port: u16, ending: &str) -> Result<PostgresConfig> {
        let url = self.url.replace(&format!(":{}", self.port()), &format!(":{port}"));
        Ok(PostgresConfig::new(&url)?.schema(Ident::new(&format!("{}{ending}", self.schema))?))
    }

    /// One more connection of the application.
    pub(crate) async fn another(&self) -> Result<Client> {
        connect(self.url).await
    }

    pub(crate) fn sql(&self, text: &str) -> String {
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

impl Stage for Postgres {
    async fn new(layout: RowLayout) -> Result<Option<Self>> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Some(url) = postgres::url() else { return Ok(None) };
        let schema = format!("adopt_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let table = RowTable::new(layout)?.in_schema(Ident::new(&schema)?).max_attempts(ATTEMPTS_MAX);
        let client = connect(url).await?;
        let make = format!("CREATE SCHEMA {schema}");
        client.batch_execute(&make).await.map_err(failed)?;
        let stage = Self { url, schema, table, client };
        PostgresRowStore::migrate(&stage.config("_ledger")?, &stage.table, RowExtras::default()).await?;
        PostgresStore::migrate(&stage.config("_log")?).await?;
        Ok(Some(stage))
    }

    fn layout(&self) -> RowLayout {
        self.table.layout()
    }

    async fn rows(&self) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(PostgresRowStore::connect(&self.config("_ledger")?, &self.table).await?))
    }

    async fn log(&self) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(PostgresStore::connect(&self.config("_log")?).await?))
    }

    fn to_rows(&self) -> Outbox {
        Outbox::anonymous().rows(self.table.clone())
    }

    fn to_log(&self) -> Outbox {
        Outbox::anonymous().schema(Ident::new(&format!("{}_log", self.schema)).unwrap())
    }

    async fn write(&self, to: &Outbox, events: Vec<Event>) -> Result<()> {
        to.write_all(&self.client, events).await.map(|_| ())
    }

    async fn run(&self, text: &str) -> Result<()> {
        self.client.batch_execute(&self.sql(text)).await.map_err(failed)
    }

    async fn one(&self, text: &str) -> Result<i64> {
        let row = self.client.query_one(&self.sql(text), &[]).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    }

    async fn hide_log(&self, is_hidden: bool) -> Result<()> {
        let (from, to) = if is_hidden { ("events", "hidden") } else { ("hidden", "events") };
        self.run(&format!("ALTER TABLE {}_log.{from} RENAME TO {to}", self.schema)).await
    }

    async fn write_late(&self, event: Event) -> Result<Late> {
        let client = connect(self.url).await?;
        client.batch_execute("BEGIN").await.map_err(failed)?;
        self.to_rows().write(&client, event).await?;
        Ok(Box::pin(async move { client.batch_execute("COMMIT").await.map_err(failed) }))
    }
}

impl OnServer for Postgres {
    fn port(&self) -> u16 {
        port(self.url)
    }

    async fn rows_at(&self, port: u16) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(PostgresRowStore::connect(&self.config_at(port, "_ledger")?, &self.table).await?))
    }

    async fn log_at(&self, port: u16) -> Result<Arc<dyn AdoptSource>> {
        Ok(Arc::new(PostgresStore::connect(&self.config_at(port, "_log")?).await?))
    }
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}
