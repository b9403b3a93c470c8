//! Operating an outbox in PostgreSQL.

use std::sync::Arc;

use tokio_postgres::Client;

use super::by_layout::{by_layout, of_server};
use super::writer::not_written;
use super::{Admin, EventWriter, MigrationReport, check_printed, overview_of, script};
use crate::adopt::AdoptSource;
use crate::layout::{Ability, Difference, RowLayout, RowTable};
use crate::store::postgres::{
    BEGIN_GUARDED, GUARD, PostgresConfig, PostgresRowStore, PostgresStore, commit_failed, statement_failed,
};
use crate::store::{
    CountBy, EventCounts, EventFilter, HandlerCheck, ListedEvent, Migration, Overview, RowExtras, Schema,
    Store,
};
use crate::{BoxFuture, Event, Outbox, Result, Written};

/// An outbox in PostgreSQL.
#[derive(Debug)]
pub struct PostgresAdmin {
    config: PostgresConfig,
    table: Option<RowTable>,
    name: String,
}

impl PostgresAdmin {
    /// The outbox of this configuration, in the table with a state per row if one is given. Errors call the database
    /// `name`, which must contain no secret.
    pub fn new(config: PostgresConfig, table: Option<RowTable>, name: impl Into<String>) -> Self {
        Self { config, table, name: name.into() }
    }

    /// Adds the database's name to an error.
    async fn named<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        super::named(&self.name, answer).await
    }
}

/// A table without a schema is in `public`.
fn with_default_schema(table: RowTable, _: &PostgresConfig) -> Result<RowTable> {
    Ok(table)
}

impl Admin for PostgresAdmin {
    by_layout! { at: config, log: PostgresStore, rows: PostgresRowStore, open: connect, await }
    of_server! { log: PostgresStore, rows: PostgresRowStore }

    fn open_writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>> {
        let outbox = self.outbox(outbox);
        Box::pin(self.named(async move {
            let (client, is_pooled) = self.config.guarded_client().await?;
            Ok(Box::new(PostgresWriter { client, is_pooled, outbox }) as Box<dyn EventWriter>)
        }))
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(async move { overview_of(self, &self.name, backlog_max).await })
    }

    /// Each step in one transaction.
    fn migration_sql(&self, extras: RowExtras) -> Result<String> {
        check_printed(self.table.as_ref(), extras)?;
        let schema = self.config.schema_name();
        let mut schemas = format!("CREATE SCHEMA IF NOT EXISTS {schema};\n");
        if let Some(table) = self.table.as_ref().filter(|table| table.layout.spec().default_table.is_some()) {
            schemas.push_str(&format!("CREATE SCHEMA IF NOT EXISTS {};\n", table.schema));
        }
        let steps: Vec<Migration> = match &self.table {
            Some(table) => PostgresRowStore::migrations(schema, table, extras),
            None => PostgresStore::migrations(schema).collect(),
        };
        let steps = script(steps, |sql| format!("{BEGIN_GUARDED};\n\n{sql}\nCOMMIT;\n"));
        Ok(format!("{schemas}\n{steps}"))
    }
}

struct PostgresWriter {
    client: Client,
    /// The connection goes through a transaction pooler: settings of the session do not last.
    is_pooled: bool,
    outbox: Outbox,
}

impl EventWriter for PostgresWriter {
    fn write(&mut self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Written>>> {
        Box::pin(async move {
            let tx = self.client.transaction().await.map_err(|e| not_written(statement_failed(e)))?;
            if self.is_pooled {
                tx.batch_execute(GUARD).await.map_err(|e| not_written(statement_failed(e)))?;
            }
            let written = self.outbox.write_all(&tx, events).await.map_err(not_written)?;
            tx.commit().await.map_err(|e| not_written(commit_failed(e)))?;
            Ok(written)
        })
    }
}
