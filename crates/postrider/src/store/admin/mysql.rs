//! Operating an outbox in MySQL or MariaDB.

use std::sync::Arc;

use mysql_async::{Conn, TxOpts};

use super::by_layout::by_layout;
use super::writer::not_written;
use super::{Admin, EventWriter, MigrationReport, no_roles};
use crate::adopt::HandsOver;
use crate::layout::{Dialect, Difference, RowLayout, RowTable};
use crate::store::mysql::{MySqlConfig, MySqlRowStore, MySqlStore, commit_failed, statement_failed};
use crate::store::{
    CountBy, EventCounts, EventFilter, ListedEvent, Migration, Overview, RowExtras, Schema, Store,
};
use crate::{BoxFuture, Code, Error, Event, Ident, Outbox, Result, Written};

/// An outbox in MySQL or MariaDB.
#[derive(Debug)]
pub struct MySqlAdmin {
    config: MySqlConfig,
    table: Option<RowTable>,
    name: String,
}

impl MySqlAdmin {
    /// The outbox of this configuration, in the table with a state per row if one is given. `name` is how errors call the
    /// database; it must hold no secret. A table without a schema is in the database that the URL names.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if the layout is not for these servers, [`Code::NameInvalid`] if nothing names the database
    /// of the table.
    pub fn new(config: MySqlConfig, table: Option<RowTable>, name: impl Into<String>) -> Result<Self> {
        let table = table.map(|table| placed(table, &config)).transpose()?;
        Ok(Self { config, table, name: name.into() })
    }

    /// Adds the database's name to an error.
    async fn named<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        answer.await.map_err(|error| error.within(&self.name))
    }
}

/// The table in the database that the URL names, unless it names its own.
fn placed(table: RowTable, config: &MySqlConfig) -> Result<RowTable> {
    if table.columns().is_none() && table.layout().shapes_on(Dialect::MySql).is_empty() {
        return Err(Error::new(Code::LayoutDiffers, "this layout does not exist for MySQL and MariaDB"));
    }
    match config.database() {
        _ if table.is_placed() => Ok(table),
        Some(database) => Ok(table.or_in_schema(Ident::new(&database)?)),
        None => Err(Error::new(
            Code::NameInvalid,
            "set the database that contains the table, in `table_schema` or in the URL",
        )),
    }
}

/// A migration commits every CREATE at once, as these servers do: one that is interrupted is completed by running it
/// again.
impl Admin for MySqlAdmin {
    by_layout! { at: config, log: MySqlStore, rows: MySqlRowStore, open: connect, await }

    fn outbox(&self, outbox: Outbox) -> Outbox {
        match &self.table {
            Some(table) => outbox.rows(table.clone()),
            None => outbox.schema(self.config.schema_name().clone()),
        }
    }

    fn open_writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>> {
        let outbox = self.outbox(outbox);
        Box::pin(self.named(async move {
            let client = self.config.client().await?;
            Ok(Box::new(MySqlWriter { client, outbox }) as Box<dyn EventWriter>)
        }))
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(async move {
            if self.table.is_none() {
                // Reading needs none of the rights that a relay needs.
                return self.named(MySqlStore::read_overview(&self.config, backlog_max)).await;
            }
            let store = self.open().await?;
            let overview = self.named(store.overview(backlog_max)).await;
            store.close().await;
            overview
        })
    }

    fn prepared_transactions(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(self.named(MySqlStore::prepared(&self.config)))
    }

    fn migration_sql(&self) -> String {
        let schema = self.config.schema_name();
        let steps: Vec<Migration> = match &self.table {
            // Every other verb refuses a layout that is not for these servers.
            Some(table) => MySqlRowStore::migrations(schema, table, RowExtras::default()).unwrap_or_default(),
            None => MySqlStore::migrations(schema).collect(),
        };
        let steps: Vec<String> =
            steps.into_iter().map(|step| format!("-- Schema {}\n{}", step.version, step.sql)).collect();
        steps.join("\n")
    }

    fn roles_sql(&self) -> Result<String> {
        match &self.table {
            Some(table) => Err(no_roles(table)),
            None => MySqlStore::roles(self.config.schema_name()),
        }
    }
}

struct MySqlWriter {
    client: Conn,
    outbox: Outbox,
}

impl EventWriter for MySqlWriter {
    fn write(&mut self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Written>>> {
        Box::pin(async move {
            let begun = self.client.start_transaction(TxOpts::default()).await;
            let mut tx = begun.map_err(|e| not_written(statement_failed(e)))?;
            let written = self.outbox.write_all(&mut tx, events).await.map_err(not_written)?;
            tx.commit().await.map_err(|e| not_written(commit_failed(e)))?;
            Ok(written)
        })
    }
}
