//! Two databases for every case: one with the table, one with Postrider's tables.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mysql_async::Conn;
use mysql_async::prelude::{FromValue, Queryable};
use postrider::layout::{Ability, Dialect, FanOutPolicy, RowLayout, RowTable};
use postrider::store::mysql::{MySqlConfig, MySqlRowStore};
use postrider::store::{RowExtras, Store};
use postrider::{Ident, Result};
use postrider_testkit::conformance::rows::Refusing;
use tokio::sync::Mutex;

use crate::mysql::log::case::{ServerKind, failed};
use crate::row_database::{RowDatabase, limited};
use crate::test_layouts::STATE_PER_ROW;

/// The layouts of these servers.
pub(crate) fn layouts() -> impl Iterator<Item = RowLayout> {
    STATE_PER_ROW.into_iter().filter(|layout| !layout.shapes_on(Dialect::MySql).is_empty())
}

pub(crate) struct RowCase<W> {
    pub(crate) config: MySqlConfig,
    pub(crate) table: RowTable,
    pub(crate) layout: RowLayout,
    /// Whether other publishers use the table.
    is_shared: bool,
    /// The database with the table.
    pub(crate) schema: String,
    /// The database with Postrider's own tables.
    pub(crate) ledger: String,
    /// A connection of the application.
    pub(crate) client: Mutex<Conn>,
    _which: PhantomData<W>,
}

impl<W: ServerKind> RowCase<W> {
    pub(crate) fn is_available() -> bool {
        W::KIND.url().is_some()
    }

    pub(crate) async fn new(layout: RowLayout) -> Result<Self> {
        let case = Self::without_tables(layout).await?;
        let extras = RowExtras::default().handlers(layout.has(Ability::Notifications));
        MySqlRowStore::migrate(&case.config, &case.table, extras).await?;
        Ok(case)
    }

    pub(crate) async fn without_tables(layout: RowLayout) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = format!("rows_{}_{number}", std::process::id());
        let ledger = format!("{schema}_ledger");
        let url = W::KIND.url().ok_or_else(|| failed(std::io::Error::other("there is no server")))?;
        let config = MySqlConfig::new(url)?.schema(Ident::new(&ledger)?);
        let client = Mutex::new(config.client().await?);
        let table = limited(RowTable::new(layout).in_schema(Ident::new(&schema)?))?;
        let case =
            Self { config, table, layout, is_shared: false, schema, ledger, client, _which: PhantomData };
        case.run("DROP DATABASE IF EXISTS {schema}; DROP DATABASE IF EXISTS {ledger}").await?;
        case.run("CREATE DATABASE {schema}; USE {schema}").await?;
        Ok(case)
    }

    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(MySqlRowStore::connect(&self.config, &self.table).await?))
    }

    /// Inserts the names of the databases and of the table.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", &self.schema)
            .replace("{ledger}", &self.ledger)
            .replace("{t}", self.layout.table_name())
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        self.client.lock().await.query_drop(self.sql(sql)).await.map_err(failed)
    }

    pub(crate) async fn one<T: FromValue + Send + 'static>(&self, sql: &str) -> Result<T> {
        let value: Option<T> = self.client.lock().await.query_first(self.sql(sql)).await.map_err(failed)?;
        value.ok_or_else(|| failed(std::io::Error::other("no row")))
    }

    pub(crate) async fn all<T: FromValue + Send + 'static>(&self, sql: &str) -> Result<Vec<T>> {
        self.client.lock().await.query(self.sql(sql)).await.map_err(failed)
    }

    /// All values of the first row, between spaces.
    pub(crate) async fn row_of(&self, sql: &str) -> Result<String> {
        let row: Option<mysql_async::Row> =
            self.client.lock().await.query_first(self.sql(sql)).await.map_err(failed)?;
        let row = row.ok_or_else(|| failed(std::io::Error::other("no row")))?;
        let text = |at| row.get::<Option<String>, _>(at).flatten().unwrap_or_default();
        Ok((0..row.len()).map(text).collect::<Vec<_>>().join(" "))
    }
}

impl<W: ServerKind> RowDatabase for RowCase<W> {
    const NOW: &'static str = "UTC_TIMESTAMP(6)";
    const NEW_UUID: &'static str = "UUID()";
    const LOCKS_EXCLUDE_UPDATES: bool = true;

    fn is_available() -> bool {
        Self::is_available()
    }

    async fn create(layout: RowLayout) -> Result<Self> {
        Self::new(layout).await
    }

    fn with_sharing(self, is_shared: bool) -> Self {
        Self { table: self.table.shared(is_shared), is_shared, ..self }
    }

    fn with_fan_out(self, fan_out: FanOutPolicy) -> Self {
        Self { table: self.table.fan_out(fan_out), ..self }
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn layout(&self) -> RowLayout {
        self.layout
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.store().await
    }

    async fn execute(&self, sql: &str) -> Result<()> {
        self.run(sql).await
    }

    async fn rows(&self, sql: &str) -> Result<Vec<Vec<String>>> {
        let rows: Vec<mysql_async::Row> =
            self.client.lock().await.query(self.sql(sql)).await.map_err(failed)?;
        let text =
            |row: &mysql_async::Row, at| row.get::<Option<String>, _>(at).flatten().unwrap_or_default();
        Ok(rows.iter().map(|row| (0..row.len()).map(|at| text(row, at)).collect()).collect())
    }

    fn text(expression: &str) -> String {
        format!("CONVERT({expression} USING utf8mb4) COLLATE utf8mb4_bin")
    }

    async fn insert_rows(&self, inserts: Vec<(String, Option<String>)>) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        let mut client = self.client.lock().await;
        client.query_drop("START TRANSACTION").await.map_err(failed)?;
        for (sql, id) in inserts {
            client.query_drop(sql).await.map_err(failed)?;
            ids.push(id.unwrap_or_else(|| client.last_insert_id().unwrap_or(0).to_string()));
        }
        client.query_drop("COMMIT").await.map_err(failed)?;
        Ok(ids)
    }

    async fn refuse_updates(&self, table: &str, condition: &str, how: Refusing) -> Result<bool> {
        // A trigger of these servers cannot skip a row. None can be created while rows of the table are locked.
        let is_locked = self.is_shared && !self.layout.has(Ability::PublishingState);
        if how == Refusing::InSilence || is_locked {
            return Ok(false);
        }
        self.run(&format!(
            "CREATE TRIGGER refuse BEFORE UPDATE ON {table} FOR EACH ROW
             BEGIN
                 IF {condition} THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the row is frozen'; END IF;
             END"
        ))
        .await?;
        Ok(true)
    }

    async fn expire(&self) -> Result<()> {
        self.run("UPDATE {ledger}.leases SET expires_at = '1970-01-01'").await
    }

    async fn make_older(&self, table: &str, times: &[&str]) -> Result<()> {
        for time in times {
            self.run(&format!("UPDATE {table} SET {time} = {time} - INTERVAL 2 DAY")).await?;
        }
        self.run("UPDATE {ledger}.row_done SET done_at = done_at - INTERVAL 2 DAY").await
    }
}
