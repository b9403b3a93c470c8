//! Operating an outbox in a SQLite file.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::{Connection, TransactionBehavior};

use super::by_layout::by_layout;
use super::{Admin, EventWriter, MigrationReport};
use crate::adopt::HandsOver;
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
    /// [`Code::LayoutDiffers`] if the layout is not for SQLite.
    pub fn new(path: impl Into<PathBuf>, table: Option<RowTable>) -> Result<Self> {
        let path = path.into();
        let table = table.map(|table| placed(table, &path)).transpose()?;
        Ok(Self { path, table })
    }

    /// Errors of a SQLite file name it already.
    async fn named<T>(&self, answer: impl Future<Output = Result<T>> + Send) -> Result<T> {
        answer.await
    }
}

/// A file has one schema; not every layout is for SQLite.
fn placed(table: RowTable, _: &Path) -> Result<RowTable> {
    if table.columns().is_none() && table.layout().shapes_on(Dialect::Sqlite).is_empty() {
        return Err(Error::new(Code::LayoutDiffers, "this layout does not exist for SQLite"));
    }
    Ok(table)
}

impl Admin for SqliteAdmin {
    by_layout! { at: path, log: SqliteStore, rows: SqliteRowStore, open: open }

    fn outbox(&self, outbox: Outbox) -> Outbox {
        match &self.table {
            Some(table) => outbox.rows(table.clone()),
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

    /// In one transaction, and in the journal mode the relay needs, which the file remembers.
    fn migration_sql(&self) -> String {
        let steps: Vec<Migration> = match &self.table {
            // Every other verb refuses a layout that is not for SQLite.
            Some(table) => SqliteRowStore::migrations(table, RowExtras::default()).unwrap_or_default(),
            None => SqliteStore::migrations().collect(),
        };
        let steps: Vec<String> = steps
            .into_iter()
            .map(|step| format!("-- Schema {}\nBEGIN IMMEDIATE;\n\n{}\nCOMMIT;\n", step.version, step.sql))
            .collect();
        format!("PRAGMA journal_mode = WAL;\n\n{}", steps.join("\n"))
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

/// Nothing is written yet: the code says only who has to act.
fn code(error: &rusqlite::Error) -> Code {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, PermissionDenied, ReadOnly};
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => Code::StoreBusy,
        Some(DiskFull | PermissionDenied | ReadOnly) => Code::StoreReadOnly,
        _ => Code::StoreFailed,
    }
}
