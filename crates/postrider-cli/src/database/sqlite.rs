//! A SQLite file.

use std::path::Path;
use std::sync::Arc;

use postrider::store::sqlite::{Migrated, Schema as Found, SqliteStore};
use postrider::store::{Overview, Store};
use postrider::{Code, Error, Event, Outbox, Result, Written};
use rusqlite::{Connection, TransactionBehavior};

use super::{EventWriter, Schema};

pub(super) fn store(path: &Path) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(SqliteStore::open(path)?))
}

pub(super) fn overview(path: &Path, backlog_max: u64) -> Result<Overview> {
    SqliteStore::look(path, backlog_max)
}

pub(super) fn schema(path: &Path) -> Result<Schema> {
    let Found { found, needed } = SqliteStore::schema(path)?;
    Ok(Schema { found, needed })
}

pub(super) fn migrate(path: &Path) -> Result<Schema> {
    let Migrated { from, to } = SqliteStore::migrate(path)?;
    Ok(Schema { found: from, needed: to })
}

/// In one transaction, and in the journal mode the relay needs, which the file remembers.
pub(super) fn migrations() -> String {
    let steps: Vec<String> = SqliteStore::migrations()
        .map(|step| format!("-- Schema {}\nBEGIN IMMEDIATE;\n\n{}\nCOMMIT;\n", step.version, step.sql))
        .collect();
    format!("PRAGMA journal_mode = WAL;\n\n{}", steps.join("\n"))
}

pub(super) fn writer(path: &Path, outbox: Outbox) -> Result<Box<dyn EventWriter>> {
    Ok(Box::new(SqliteWriter { connection: SqliteStore::connect(path)?, outbox }))
}

struct SqliteWriter {
    connection: Connection,
    outbox: Outbox,
}

impl EventWriter for SqliteWriter {
    fn write(&mut self, events: Vec<Event>) -> Result<Vec<Written>> {
        let begun = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let tx = begun.map_err(|e| {
            Error::new(code(&e), "the transaction could not begin").hint("see what else writes").source(e)
        })?;
        let written = self.outbox.write_all(&tx, events)?;
        tx.commit().map_err(|e| {
            Error::new(Code::OutcomeUnknown, "the commit failed")
                .hint("look into the outbox before you write these events again")
                .source(e)
        })?;
        Ok(written)
    }
}

/// Before anything was written, all there is to tell apart is who is to act.
fn code(error: &rusqlite::Error) -> Code {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull, PermissionDenied, ReadOnly};
    match error.sqlite_error_code() {
        Some(DatabaseBusy | DatabaseLocked) => Code::StoreBusy,
        Some(DiskFull | PermissionDenied | ReadOnly) => Code::StoreReadOnly,
        _ => Code::StoreFailed,
    }
}
