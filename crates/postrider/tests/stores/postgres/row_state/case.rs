//! Two schemas for every case: one with the table, one with Postrider's tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use crate::failed;
use postrider::layout::{Ability, FanOutPolicy, RowLayout, RowTable};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};
use postrider::store::{RowExtras, Store};
use postrider::{Code, Error, Ident, Result};
use postrider_testkit::conformance::rows::Refusing;
use postrider_testkit::servers::postgres;
use tokio_postgres::types::FromSqlOwned;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, SimpleQueryRow};

use crate::row_database::{RowDatabase, limited, number};
use crate::test_layouts::{STATE_PER_ROW, TestLayout};

pub(crate) struct Case {
    pub(crate) config: PostgresConfig,
    pub(crate) table: RowTable,
    pub(crate) layout: RowLayout,
    /// Whether other publishers use the table.
    pub(crate) is_shared: bool,
    /// The schema with the table.
    pub(crate) schema: String,
    /// The schema with Postrider's own tables.
    pub(crate) ledger: String,
    /// A connection of the application.
    pub(crate) client: Client,
}

impl Case {
    pub(crate) fn is_available() -> bool {
        postgres::url().is_some()
    }

    pub(crate) async fn new(layout: RowLayout) -> Result<Self> {
        let case = Self::without_tables(layout).await?;
        let extras = RowExtras::default().handlers(layout.has(Ability::Notifications));
        PostgresRowStore::migrate(&case.config, &case.table, extras).await?;
        Ok(case)
    }

    pub(crate) async fn without_tables(layout: RowLayout) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let schema = format!("rows_{}_{number}", std::process::id());
        let ledger = format!("{schema}_ledger");
        let url = format!("{}?application_name={schema}", url()?);
        let case = Self {
            config: PostgresConfig::new(&url)?.schema(Ident::new(&ledger)?),
            table: table(layout, &schema)?,
            layout,
            is_shared: false,
            client: connect().await?,
            schema,
            ledger,
        };
        case.run("DROP SCHEMA IF EXISTS {schema} CASCADE; DROP SCHEMA IF EXISTS {ledger} CASCADE").await?;
        case.run("CREATE SCHEMA {schema}; SET search_path = {schema}").await?;
        Ok(case)
    }

    /// The same table, shared with other publishers or not.
    pub(crate) fn shared(self, is_shared: bool) -> Self {
        Self { table: self.table.shared(is_shared), is_shared, ..self }
    }

    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PostgresRowStore::connect(&self.config, &self.table).await?))
    }

    /// Another connection of the application.
    pub(crate) async fn another(&self) -> Result<Client> {
        let client = connect().await?;
        client.batch_execute(&self.sql("SET search_path = {schema}")).await.map_err(failed)?;
        Ok(client)
    }

    /// Inserts the names of the schemas and of the table.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", &self.schema)
            .replace("{ledger}", &self.ledger)
            .replace("{t}", self.layout.table_name())
    }

    pub(crate) async fn run(&self, sql: &str) -> Result<()> {
        self.client.batch_execute(&self.sql(sql)).await.map_err(failed)
    }

    pub(crate) async fn one<T: FromSqlOwned>(&self, sql: &str) -> Result<T> {
        let row = self.client.query_one(&self.sql(sql), &[]).await.map_err(failed)?;
        row.try_get(0).map_err(failed)
    }

    pub(crate) async fn all<T: FromSqlOwned>(&self, sql: &str) -> Result<Vec<T>> {
        let rows = self.client.query(&self.sql(sql), &[]).await.map_err(failed)?;
        rows.iter().map(|row| row.try_get(0).map_err(failed)).collect()
    }

    /// The INSERT of one row, as a program without Postrider would write it.
    pub(crate) fn insert(&self, key: &str, number: usize) -> String {
        format!("{} RETURNING id::text", TestLayout::of(self.layout).insert(Self::NEW_UUID, key, number))
    }
}

fn table(layout: RowLayout, schema: &str) -> Result<RowTable> {
    limited(RowTable::new(layout).in_schema(Ident::new(schema)?))
}

impl RowDatabase for Case {
    const NOW: &'static str = "now()";
    const NEW_UUID: &'static str = "gen_random_uuid()";

    fn is_available() -> bool {
        Self::is_available()
    }

    async fn create(layout: RowLayout) -> Result<Self> {
        Self::new(layout).await
    }

    fn with_sharing(self, is_shared: bool) -> Self {
        self.shared(is_shared)
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
        let messages = self.client.simple_query(&self.sql(sql)).await.map_err(failed)?;
        let text = |row: &SimpleQueryRow, at| row.get(at).unwrap_or_default().to_owned();
        let row = |message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| text(&row, at)).collect()),
            _ => None,
        };
        Ok(messages.into_iter().filter_map(row).collect())
    }

    fn text(expression: &str) -> String {
        format!("{expression}::text")
    }

    fn insert_sql(&self, key: &str, number: usize) -> String {
        self.insert(key, number)
    }

    /// Every INSERT returns the id.
    async fn insert_rows(&self, inserts: Vec<(String, Option<String>)>) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        self.run("BEGIN").await?;
        for (sql, _) in inserts {
            ids.push(self.one(&sql).await?);
        }
        self.run("COMMIT").await?;
        Ok(ids)
    }

    async fn refuse_updates(&self, table: &str, condition: &str, how: Refusing) -> Result<bool> {
        let what = match how {
            Refusing::WithAnError => "RAISE EXCEPTION 'the row is frozen' USING ERRCODE = 'FRZ01'",
            Refusing::InSilence => "RETURN NULL",
        };
        self.run(&format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {what}; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON {table} FOR EACH ROW WHEN ({condition})
             EXECUTE FUNCTION refuse()"
        ))
        .await?;
        Ok(true)
    }

    async fn expire(&self) -> Result<()> {
        self.run("UPDATE {ledger}.leases SET expires_at = 'epoch'").await
    }

    async fn make_older(&self, table: &str, times: &[&str]) -> Result<()> {
        // No lock is held for this long: the server ends sessions that are idle in a transaction for a minute.
        let end = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
                   WHERE application_name = '{schema}' AND state = 'idle in transaction'";
        self.one::<i64>(end).await?;
        for time in times {
            self.run(&format!("UPDATE {table} SET {time} = {time} - interval '2 days'")).await?;
        }
        self.run("UPDATE {ledger}.row_done SET done_at = done_at - interval '2 days'").await
    }

    async fn claims_recorded(&self) -> Result<usize> {
        number(self, "SELECT count(*) FROM {ledger}.row_claims").await
    }
}

/// Runs a test on every layout, each in a new table.
pub(crate) async fn on_every_layout(test: impl AsyncFn(Case) -> Result<()>) -> Result<()> {
    for layout in STATE_PER_ROW {
        if Case::is_available() {
            test(Case::new(layout).await?).await?;
        }
    }
    Ok(())
}

pub(crate) fn url() -> Result<&'static str> {
    postgres::url().ok_or_else(|| Error::new(Code::StoreFailed, "there is no server for the test"))
}

async fn connect() -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url()?, NoTls).await.map_err(failed)?;
    tokio::spawn(connection);
    Ok(client)
}
