//! A schema full of events, for all contenders.

use std::sync::Arc;

use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::write::Outbox;
use postrider::{Event, Ident};
use tokio_postgres::{Client, NoTls};

use crate::Error;
use crate::workload::Workload;

/// Events per transaction while filling.
const FILL_BATCH: u64 = 5_000;

/// A new schema, dropped by [`Fixture::close`].
pub(crate) struct Fixture {
    url: String,
    pub(crate) schema: Ident,
    pub(crate) client: Client,
}

impl Fixture {
    /// Creates a schema with this name and writes events with the library.
    pub(crate) async fn fill(url: &str, name: &str, workload: &Workload) -> Result<Self, Error> {
        Self::fill_with(url, name, workload.events, |number| workload.event(number)).await
    }

    /// The same, with any events.
    pub(crate) async fn fill_with(
        url: &str,
        name: &str,
        events: u64,
        event: impl Fn(u64) -> Event,
    ) -> Result<Self, Error> {
        let schema = Ident::new(&format!("postrider_bench_{name}"))?;
        let client = connect(url).await?;
        client.batch_execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE")).await?;
        let mut fixture = Self { url: url.to_owned(), schema, client };
        PostgresStore::migrate(&fixture.config()?).await?;
        let outbox = Outbox::new().schema(fixture.schema.clone());
        let mut next = 0;
        while next < events {
            let until = (next + FILL_BATCH).min(events);
            let tx = fixture.client.transaction().await?;
            outbox.write_all(&tx, (next..until).map(&event)).await?;
            tx.commit().await?;
            next = until;
        }
        fixture.settle().await?;
        Ok(fixture)
    }

    /// Creates a schema with events that the server generates, which is faster for many events.
    pub(crate) async fn generate(url: &str, name: &str, events: u64) -> Result<Self, Error> {
        let none = Workload { events: 0, payload_bytes: 0, keys: 0 };
        let fixture = Self::fill(url, name, &none).await?;
        let sql = "INSERT INTO {schema}.events (type, aggregate_type, aggregate_id, payload)
                   SELECT 'order.placed', 'Order', n::text, convert_to(repeat('x', 340), 'UTF8')
                   FROM generate_series(1, $1::bigint) AS n";
        fixture.client.execute(&fixture.sql(sql), &[&i64::try_from(events)?]).await?;
        fixture.settle().await?;
        Ok(fixture)
    }

    /// Makes all contenders start with clean pages: hint bits set, nothing left for the checkpointer to write.
    pub(crate) async fn settle(&self) -> Result<(), Error> {
        self.client.batch_execute(&self.sql("VACUUM ANALYZE {schema}.events")).await?;
        self.client.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    /// A statement with the name of the schema inserted.
    pub(crate) fn sql(&self, statement: &str) -> String {
        statement.replace("{schema}", &self.schema.to_string())
    }

    pub(crate) fn config(&self) -> Result<PostgresConfig, Error> {
        Ok(PostgresConfig::new(&self.url)?.schema(self.schema.clone()))
    }

    pub(crate) async fn store(&self) -> Result<Arc<PostgresStore>, Error> {
        Ok(Arc::new(PostgresStore::connect(&self.config()?).await?))
    }

    /// Another connection.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        connect(&self.url).await
    }

    pub(crate) async fn close(self) -> Result<(), Error> {
        Ok(self.client.batch_execute(&self.sql("DROP SCHEMA {schema} CASCADE")).await?)
    }
}

async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move { _ = connection.await });
    Ok(client)
}
