//! Operating an outbox in MySQL or MariaDB.

use std::sync::Arc;

use mysql_async::{Conn, TxOpts};

use super::by_layout::{by_layout, of_server};
use super::writer::not_written;
use super::{Admin, EventWriter, MigrationReport, check_printed, overview_of, script};
use crate::adopt::AdoptSource;
use crate::layout::{Ability, Dialect, Difference, RowLayout, RowTable};
use crate::store::mysql::{MySqlConfig, MySqlRowStore, MySqlStore, commit_failed, statement_failed};
use crate::store::{
    CountBy, EventCounts, EventFilter, HandlerCheck, ListedEvent, Migration, Overview, RowExtras, Schema,
    Store,
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
    /// The outbox of this configuration, in the table with a state per row if one is given. Errors call the database
    /// `name`, which must contain no secret. A table without a schema is in the database of the URL.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if the layout does not exist for these servers, [`Code::NameInvalid`] if the database of
    /// the table is not configured.
    pub fn new(config: MySqlConfig, table: Option<RowTable>, name: impl Into<String>) -> Result<Self> {
        let table = table.map(|table| with_default_schema(table, &config)).transpose()?;
        Ok(Self { config, table, name: name.into() })
    }

    /// Adds the database's name to an error.
    async fn named<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        super::named(&self.name, answer).await
    }
}

/// The table, in the database of the URL unless it has a schema.
fn with_default_schema(table: RowTable, config: &MySqlConfig) -> Result<RowTable> {
    if table.columns().is_none() && table.layout().shapes_on(Dialect::MySql).is_empty() {
        return Err(Error::new(Code::LayoutDiffers, "this layout does not exist for MySQL and MariaDB"));
    }
    match config.database() {
        _ if table.has_schema() => Ok(table),
        Some(database) => Ok(table.or_in_schema(Ident::new(&database)?)),
        None => Err(Error::new(
            Code::NameInvalid,
            "set the database that contains the table, in `table_schema` or in the URL",
        )),
    }
}

/// These servers commit every CREATE immediately: a migration that is interrupted is completed by running it again.
impl Admin for MySqlAdmin {
    by_layout! { at: config, log: MySqlStore, rows: MySqlRowStore, open: connect, await }
    of_server! { log: MySqlStore, rows: MySqlRowStore }

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
                // Needs only the right to read, and works on servers that no relay can use.
                return self.named(MySqlStore::read_overview(&self.config, backlog_max)).await;
            }
            overview_of(self, &self.name, backlog_max).await
        })
    }

    fn prepared_transactions(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(self.named(MySqlStore::prepared(&self.config)))
    }

    fn migration_sql(&self, extras: RowExtras) -> Result<String> {
        check_printed(self.table.as_ref(), extras)?;
        let schema = self.config.schema_name();
        let steps: Vec<Migration> = match &self.table {
            Some(table) => MySqlRowStore::migrations(schema, table, extras)?,
            None => MySqlStore::migrations(schema).collect(),
        };
        Ok(script(steps, str::to_owned))
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
