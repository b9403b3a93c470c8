//! Two schemas of its own for every case: one with the table, one with Postrider's tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use crate::failed;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::Store;
use postrider::store::postgres::{PostgresConfig, PostgresRowStore, RowExtras};
use postrider::{Code, Error, Ident, Result};
use postrider_testkit::conformance::rows::{ATTEMPTS_MAX, Refusing};
use postrider_testkit::servers::postgres;
use tokio_postgres::types::FromSqlOwned;
use tokio_postgres::{Client, NoTls};

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
        PostgresRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
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
            table: RowTable::new(layout)?.in_schema(Ident::new(&schema)?).max_attempts(ATTEMPTS_MAX),
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

    /// The same table beside other publishers, or alone.
    pub(crate) fn shared(self, is_shared: bool) -> Self {
        Self { table: self.table.shared(is_shared), is_shared, ..self }
    }

    pub(crate) async fn store(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(PostgresRowStore::connect(&self.config, &self.table).await?))
    }

    /// One more connection of the application.
    pub(crate) async fn another(&self) -> Result<Client> {
        let client = connect().await?;
        client.batch_execute(&self.sql("SET search_path = {schema}")).await.map_err(failed)?;
        Ok(client)
    }

    /// Puts the names of the schemas and the table in.
    pub(crate) fn sql(&self, text: &str) -> String {
        text.replace("{schema}", &self.schema)
            .replace("{ledger}", &self.ledger)
            .replace("{t}", self.layout.name())
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

    /// Makes the lease's time run out.
    pub(crate) async fn expire_lease(&self) -> Result<()> {
        self.run("UPDATE {ledger}.leases SET expires_at = 'epoch'").await
    }

    /// Makes all rows two days older, in these columns, and our notes of them.
    pub(crate) async fn age(&self, table: &str, times: &[&str]) -> Result<()> {
        // No lock lives that long: the server ends who says nothing for a minute.
        let end = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
                   WHERE application_name = '{schema}' AND state = 'idle in transaction'";
        self.one::<i64>(end).await?;
        for time in times {
            self.run(&format!("UPDATE {table} SET {time} = {time} - interval '2 days'")).await?;
        }
        self.run("UPDATE {ledger}.row_done SET done_at = done_at - interval '2 days'").await
    }

    /// Writes rows in one transaction, a statement each, which answers with the id.
    pub(crate) async fn write_rows(
        &self,
        rows: usize,
        insert: impl Fn(usize) -> String,
    ) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        self.run("BEGIN").await?;
        for number in 0..rows {
            ids.push(self.one(&insert(number)).await?);
        }
        self.run("COMMIT").await?;
        Ok(ids)
    }

    /// Makes the table refuse every UPDATE of rows, known by an expression over `old`.
    pub(crate) async fn refuse(&self, table: &str, key: &str, ids: &[&str], how: Refusing) -> Result<bool> {
        let what = match how {
            Refusing::WithAnError => "RAISE EXCEPTION 'the row is frozen' USING ERRCODE = 'FRZ01'",
            Refusing::InSilence => "RETURN NULL",
        };
        let ids = ids.iter().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ");
        self.run(&format!(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {what}; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON {table} FOR EACH ROW WHEN ({key} IN ({ids}))
             EXECUTE FUNCTION refuse()"
        ))
        .await?;
        Ok(true)
    }

    /// The INSERT of one row of a key, as somebody who does not know Postrider would write it.
    pub(crate) fn insert(&self, key: &str, number: usize) -> String {
        let payload = format!("{{\"n\": {number}}}");
        match self.layout {
            RowLayout::EventOutbox => format!(
                "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload)
                 VALUES (gen_random_uuid(), 'orders', '{key}', 'order.placed', '{payload}') RETURNING id::text"
            ),
            RowLayout::Outbox => format!(
                "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, topic, partition_key, payload,
                                     max_retries)
                 VALUES ('Order', gen_random_uuid(), 'order.placed', 'orders', '{key}', '{payload}', {ATTEMPTS_MAX})
                 RETURNING id::text"
            ),
            RowLayout::OutboxEvents | RowLayout::Custom => format!(
                "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload)
                 VALUES ('Order', '{key}', 'order.placed', '{payload}') RETURNING id::text"
            ),
        }
    }
}

/// A test on every layout, each with a table of its own.
pub(crate) async fn on_every_layout(test: impl AsyncFn(Case) -> Result<()>) -> Result<()> {
    for layout in RowLayout::ALL {
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
