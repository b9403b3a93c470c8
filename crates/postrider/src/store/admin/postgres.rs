//! Operating an outbox in PostgreSQL.

use std::sync::Arc;

use tokio_postgres::Client;

use super::by_layout::by_layout;
use super::writer::not_written;
use super::{Admin, EventWriter, MigrationReport, no_roles};
use crate::adopt::HandsOver;
use crate::layout::{Difference, RowLayout, RowTable};
use crate::store::postgres::{
    BEGIN_GUARDED, GUARD, PostgresConfig, PostgresRowStore, PostgresStore, commit_failed, statement_failed,
};
use crate::store::{
    CountBy, EventCounts, EventFilter, ListedEvent, Migration, Overview, RowExtras, Schema, Store,
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
    /// The outbox of this configuration, in the table with a state per row if one is given. `name` is how errors call the
    /// database; it must hold no secret.
    pub fn new(config: PostgresConfig, table: Option<RowTable>, name: impl Into<String>) -> Self {
        Self { config, table, name: name.into() }
    }

    /// Adds the database's name to an error.
    async fn named<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        answer.await.map_err(|error| error.within(&self.name))
    }
}

/// A table without a schema is in `public`.
fn placed(table: RowTable, _: &PostgresConfig) -> Result<RowTable> {
    Ok(table)
}

impl Admin for PostgresAdmin {
    by_layout! { at: config, log: PostgresStore, rows: PostgresRowStore, open: connect, await }

    fn outbox(&self, outbox: Outbox) -> Outbox {
        match &self.table {
            Some(table) => outbox.rows(table.clone()),
            None => outbox.schema(self.config.schema_name().clone()),
        }
    }

    fn open_writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>> {
        let outbox = self.outbox(outbox);
        Box::pin(self.named(async move {
            let (client, is_pooled) = self.config.guarded_client().await?;
            Ok(Box::new(PostgresWriter { client, is_pooled, outbox }) as Box<dyn EventWriter>)
        }))
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(async move {
            let store = self.open().await?;
            let overview = self.named(store.overview(backlog_max)).await;
            store.close().await;
            overview
        })
    }

    /// Each step in one transaction.
    fn migration_sql(&self) -> String {
        let schema = self.config.schema_name();
        let steps: Vec<Migration> = match &self.table {
            Some(table) => PostgresRowStore::migrations(schema, table, RowExtras::default()),
            None => PostgresStore::migrations(schema).collect(),
        };
        let steps: Vec<String> = steps
            .into_iter()
            .map(|Migration { version, sql, .. }| {
                format!("-- Schema {version}\n{BEGIN_GUARDED};\n\n{sql}\nCOMMIT;\n")
            })
            .collect();
        format!("CREATE SCHEMA IF NOT EXISTS {schema};\n\n{}", steps.join("\n"))
    }

    fn roles_sql(&self) -> Result<String> {
        match &self.table {
            Some(table) => Err(no_roles(table)),
            None => PostgresStore::roles(self.config.schema_name()),
        }
    }
}

struct PostgresWriter {
    client: Client,
    /// Settings of the session do not last from one transaction to the next.
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
