//! A table and an outbox on one server, each in its own schema.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use postrider::adopt::AdoptSource;
use postrider::layout::{Ability, RowLayout, RowTable};
use postrider::{Event, Ident, Outbox, Result};
use tokio::sync::Mutex;

use crate::adopt::mysql::MySqlDriver;
use crate::adopt::postgres::PostgresDriver;
use crate::adopt::stage::{ATTEMPTS_MAX, Late, Stage};
use crate::mysql::log::case;

pub(crate) type Postgres = Server<PostgresDriver>;
pub(crate) type MySql = Server<MySqlDriver<case::MySql>>;
pub(crate) type MariaDb = Server<MySqlDriver<case::MariaDb>>;

/// The differences between servers.
#[allow(async_fn_in_trait, reason = "only tests call it")]
pub(crate) trait Driver: 'static {
    type Client;

    /// The statement that creates a schema, before its name.
    const CREATE_SCHEMA: &'static str;
    const BEGIN: &'static str;

    /// `None` without such a server.
    fn url() -> Option<&'static str>;

    async fn connect(url: &str) -> Result<Self::Client>;

    async fn run(client: &mut Self::Client, sql: &str) -> Result<()>;

    async fn one(client: &mut Self::Client, sql: &str) -> Result<i64>;

    async fn write(client: &mut Self::Client, to: &Outbox, events: Vec<Event>) -> Result<()>;

    /// Creates the table, with its handlers if it has any, and the ledger next to it.
    async fn migrate_rows(url: &str, ledger: Ident, table: &RowTable) -> Result<()>;

    async fn migrate_log(url: &str, schema: Ident) -> Result<()>;

    async fn rows(url: &str, ledger: Ident, table: &RowTable) -> Result<Arc<dyn AdoptSource>>;

    async fn log(url: &str, schema: Ident) -> Result<Arc<dyn AdoptSource>>;

    /// The statement that renames a table.
    fn rename_table(schema: &Ident, from: &str, to: &str) -> String;
}

pub(crate) struct Server<D: Driver> {
    url: &'static str,
    /// The schema with the table; the names of the others begin with it.
    schema: String,
    table: RowTable,
    client: Mutex<D::Client>,
}

impl<D: Driver> Server<D> {
    fn ledger(&self) -> Ident {
        Ident::new(&format!("{}_ledger", self.schema)).unwrap()
    }

    fn log_schema(&self) -> Ident {
        Ident::new(&format!("{}_log", self.schema)).unwrap()
    }

    pub(crate) fn port(&self) -> u16 {
        let (_, rest) = self.url.rsplit_once(':').unwrap();
        rest.split(['/', '?']).next().unwrap().parse().unwrap()
    }

    fn url_at(&self, port: u16) -> String {
        self.url.replace(&format!(":{}", self.port()), &format!(":{port}"))
    }

    /// The store of the table, connected through another port.
    pub(crate) async fn rows_at(&self, port: u16) -> Result<Arc<dyn AdoptSource>> {
        D::rows(&self.url_at(port), self.ledger(), &self.table).await
    }

    /// The store of the outbox, connected through another port.
    pub(crate) async fn log_at(&self, port: u16) -> Result<Arc<dyn AdoptSource>> {
        D::log(&self.url_at(port), self.log_schema()).await
    }

    /// Another connection of the application.
    pub(crate) async fn another(&self) -> Result<D::Client> {
        D::connect(self.url).await
    }

    pub(crate) fn sql(&self, text: &str) -> String {
        let schema = &self.schema;
        text.replace("{t}", &format!("{schema}.{}", self.table.layout().name()))
            .replace("{events}", &format!("{schema}_log.events"))
            .replace("{log}", &format!("{schema}.events"))
            .replace("{notifications}", &format!("{schema}.event_notifications"))
            .replace("{parked}", &format!("{schema}_log.parked"))
            .replace("{notes}", &format!("{schema}_ledger.row_notes"))
            .replace("{leases of log}", &format!("{schema}_log.leases"))
            .replace("{leases of rows}", &format!("{schema}_ledger.leases"))
            .replace("{never}", "'2000-01-01'")
    }
}

impl<D: Driver> Stage for Server<D> {
    async fn new(layout: RowLayout) -> Result<Option<Self>> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let Some(url) = D::url() else { return Ok(None) };
        let schema = format!("adopt_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let table = RowTable::new(layout).in_schema(Ident::new(&schema)?);
        let has_limit = !layout.has(Ability::Notifications);
        let table = if has_limit { table.max_attempts(ATTEMPTS_MAX) } else { table };
        let mut client = D::connect(url).await?;
        D::run(&mut client, &format!("{} {schema}", D::CREATE_SCHEMA)).await?;
        let stage = Self { url, schema, table, client: Mutex::new(client) };
        D::migrate_rows(url, stage.ledger(), &stage.table).await?;
        D::migrate_log(url, stage.log_schema()).await?;
        Ok(Some(stage))
    }

    fn layout(&self) -> RowLayout {
        self.table.layout()
    }

    async fn rows(&self) -> Result<Arc<dyn AdoptSource>> {
        D::rows(self.url, self.ledger(), &self.table).await
    }

    async fn log(&self) -> Result<Arc<dyn AdoptSource>> {
        D::log(self.url, self.log_schema()).await
    }

    fn to_rows(&self) -> Outbox {
        Outbox::anonymous().table(self.table.clone())
    }

    fn to_log(&self) -> Outbox {
        Outbox::anonymous().schema(self.log_schema())
    }

    async fn write(&self, to: &Outbox, events: Vec<Event>) -> Result<()> {
        D::write(&mut *self.client.lock().await, to, events).await
    }

    async fn run(&self, text: &str) -> Result<()> {
        D::run(&mut *self.client.lock().await, &self.sql(text)).await
    }

    async fn one(&self, text: &str) -> Result<i64> {
        D::one(&mut *self.client.lock().await, &self.sql(text)).await
    }

    async fn hide_log(&self, is_hidden: bool) -> Result<()> {
        let (from, to) = if is_hidden { ("events", "hidden") } else { ("hidden", "events") };
        self.run(&D::rename_table(&self.log_schema(), from, to)).await
    }

    async fn write_late(&self, event: Event) -> Result<Late> {
        let mut client = self.another().await?;
        D::run(&mut client, D::BEGIN).await?;
        D::write(&mut client, &self.to_rows(), vec![event]).await?;
        Ok(Box::pin(async move { D::run(&mut client, "COMMIT").await }))
    }
}
