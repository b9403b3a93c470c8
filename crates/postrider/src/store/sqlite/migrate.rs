//! Bringing a SQLite file to the schema this program knows, and telling whether it is there.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::failure::Attempt;
use super::lease::now;
use super::thread::in_transaction;
use crate::store::schema::{self, Migrated};
use crate::{Code, Error};

/// Every migration, oldest first. Its number is its place, counted from 1. A released one never changes.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_outbox.sql")];

/// The schema this program knows.
const LATEST: i64 = MIGRATIONS.len() as i64;

/// What messages call the database.
const PLACE: &str = "the SQLite file";

/// How often the switch to WAL is tried while other processes make the same switch.
const WAL_TRIES_MAX: u32 = 100;

/// Applies what is missing, all of it or none. Several processes may do so at once: the first does the
/// work, the others wait and find it done.
pub(super) fn migrate(connection: &mut Connection) -> Attempt<Migrated> {
    let migrated = in_transaction(connection, TransactionBehavior::Immediate, |tx| {
        tx.execute_batch(
            "CREATE TABLE IF NOT EXISTS postrider_migrations (
                 version    INTEGER PRIMARY KEY,
                 applied_at INTEGER NOT NULL
             ) STRICT",
        )?;
        let from = version(tx)?;
        schema::refuse_newer(PLACE, from, LATEST)?;
        for (number, sql) in (1..).zip(MIGRATIONS).filter(|(number, _)| *number > from) {
            tx.execute_batch(sql)?;
            tx.execute(
                "INSERT INTO postrider_migrations(version, applied_at) VALUES (?1, ?2)",
                params![number, now(tx)?],
            )?;
        }
        Ok(Migrated { from, to: LATEST })
    })?;
    use_wal(connection)?;
    Ok(migrated)
}

/// Refuses a file whose schema this program does not know.
pub(super) fn check(connection: &Connection) -> Attempt<()> {
    let known = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'postrider_migrations'";
    let version = match connection.query_row(known, [], |_| Ok(())).optional()? {
        Some(()) => version(connection)?,
        None => 0,
    };
    Ok(schema::check(PLACE, version, LATEST)?)
}

fn version(connection: &Connection) -> Attempt<i64> {
    let sql = "SELECT coalesce(max(version), 0) FROM postrider_migrations";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Makes readers and the writer independent of each other; the file remembers it. SQLite does not wait
/// for others on this switch, so a refused try waits for the write lock and tries again.
fn use_wal(connection: &mut Connection) -> Attempt<()> {
    for _ in 1..WAL_TRIES_MAX {
        match switch_to_wal(connection) {
            Err(busy) if busy.code() == Code::StoreBusy => {
                in_transaction(connection, TransactionBehavior::Immediate, |_| Ok(()))?;
            }
            other => return other,
        }
    }
    switch_to_wal(connection)
}

fn switch_to_wal(connection: &Connection) -> Attempt<()> {
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode == "wal" {
        return Ok(());
    }
    Err(Error::new(Code::StoreFailed, format!("the SQLite file stays in journal mode {mode:?}"))
        .hint("put the file on a local disk; WAL needs shared memory")
        .into())
}
