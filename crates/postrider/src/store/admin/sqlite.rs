//! Operating an outbox in a SQLite file.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};

use super::by_layout::by_layout;
use super::{Admin, EventWriter, MigrationReport, check_printed, script};
use crate::adopt::AdoptSource;
use crate::layout::{Dialect, Difference, RowLayout, RowTable};
use crate::store::sqlite::{SqliteRowStore, SqliteStore};
use crate::store::{
    CountBy, EventCounts, EventFilter, ListedEvent, Migration, Overview, RowExtras, Schema, Store,
};
use crate::{BoxFuture, Code, Error, Event, Outbox, Result, Written};

/// An outbox in a SQLite file.
#[derive(Debug)]
pub struct SqliteAdmin {
    path: PathBuf,
    table: Option<RowTable>,
}

impl SqliteAdmin {
    /// The outbox in this file, in the table with a state per row if one is given.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`] if the layout does not exist for SQLite.
    pub fn new(path: impl Into<PathBuf>, table: Option<RowTable>) -> Result<Self> {
        let path = path.into();
        let table = table.map(|table| with_default_schema(table, &path)).transpose()?;
        Ok(Self { path, table })
    }

    /// Errors of a SQLite file already name it.
    async fn named<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        answer.await
    }
}

/// Refuses a layout that does not exist for SQLite. A file has only one schema.
fn with_default_schema(table: RowTable, _: &Path) -> Result<RowTable> {
    if table.columns().is_none() && table.layout().shapes_on(Dialect::Sqlite).is_empty() {
        let what = format!("layout {} does not exist for SQLite", table.layout().name());
        return Err(Error::new(Code::LayoutDiffers, what));
    }
    Ok(table)
}

impl Admin for SqliteAdmin {
    by_layout! { at: path, log: SqliteStore, rows: SqliteRowStore, open: open }

    fn outbox(&self, outbox: Outbox) -> Outbox {
        match &self.table {
            Some(table) => outbox.table(table.clone()),
            None => outbox,
        }
    }

    fn open_writer(&self, outbox: Outbox) -> BoxFuture<'_, Result<Box<dyn EventWriter>>> {
        Box::pin(async move {
            let outbox = self.outbox(outbox);
            let connection = match &self.table {
                Some(table) => SqliteRowStore::connect(&self.path, table)?,
                None => SqliteStore::connect(&self.path)?,
            };
            Ok(Box::new(SqliteWriter { connection, outbox }) as Box<dyn EventWriter>)
        })
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        Box::pin(async move {
            match &self.table {
                Some(table) => SqliteRowStore::read_overview(&self.path, table, backlog_max),
                None => SqliteStore::read_overview(&self.path, backlog_max),
            }
        })
    }

    /// Each step in one transaction, in WAL mode, which the relay needs and the file keeps.
    fn migration_sql(&self, extras: RowExtras) -> Result<String> {
        check_printed(self.table.as_ref(), extras)?;
        let steps: Vec<Migration> = match &self.table {
            Some(table) => SqliteRowStore::migrations(table, extras)?,
            None => SqliteStore::migrations().collect(),
        };
        let steps = script(steps, |sql| format!("BEGIN IMMEDIATE;\n\n{sql}\nCOMMIT;\n"));
        Ok(format!("PRAGMA journal_mode = WAL;\n\n{steps}"))
    }

    fn roles_sql(&self) -> Result<String> {
        Err(Error::new(Code::ConfigValue, format!("sqlite:{} has no roles", self.path.display())).with_hint(
            "any user who can write to a SQLite file can change everything in it: use file permissions",
        ))
    }
}

struct SqliteWriter {
    connection: Connection,
    outbox: Outbox,
}

impl SqliteWriter {
    fn write_now(&mut self, events: Vec<Event>) -> Result<Vec<Written>> {
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = begun.map_err(|e| {
            Error::new(code(&e), "the transaction could not begin")
                .with_hint("check which other process writes to the file")
                .with_source(e)
        })?;
        let written = self.outbox.write_all(&tx, events)?;
        tx.commit().map_err(|e| {
            Error::new(Code::OutcomeUnknown, "the commit failed")
                .with_hint("check the outbox before you write these events again")
                .with_source(e)
        })?;
        Ok(written)
    }
}

impl EventWriter for SqliteWriter {
    fn write(&mut self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Written>>> {
        Box::pin(ready(self.write_now(events)))
    }
}

/// The code for a transaction that could not begin: nothing was written.
fn code(error: &rusqlite::Error) -> Code {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, PermissionDenied, ReadOnly};
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => Code::StoreBusy,
        Some(DiskFull | PermissionDenied | ReadOnly) => Code::StoreReadOnly,
        _ => Code::StoreFailed,
    }
}
