//! Migrates a SQLite file to the schema of this program, and checks its version.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::failure::Attempt;
use super::lease::now;
use super::worker::in_transaction;
use crate::store::schema::{self, Migrated, Migration, Schema};
use crate::{Code, Error};

/// Every migration, oldest first, numbered from 1. A released one never changes.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_outbox.sql"),
    include_str!("migrations/0002_inbox.sql"),
    include_str!("migrations/0003_actions.sql"),
    concat!(include_str!("migrations/0004_operate.sql"), "\n", include_str!("migrations/0004_audit.sql")),
    include_str!("migrations/0005_heartbeat.sql"),
];

/// The table of applied migrations, created before the first one.
const MIGRATIONS_TABLE: &str = "CREATE TABLE IF NOT EXISTS postrider_migrations (
    version    INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
) STRICT";

/// The schema version of this program.
const LATEST: i64 = MIGRATIONS.len() as i64;

/// The name of the database in messages.
const PLACE: &str = "the SQLite file";

/// How many times the switch to WAL is tried while other processes do the same.
const WAL_TRIES_MAX: u32 = 100;

/// The schema version of a file, if it exists, and that of this program.
pub(super) fn schema(connection: Option<&Connection>) -> Attempt<Schema> {
    Ok(Schema { found: connection.map_or(Ok(0), found)?, needed: LATEST })
}

/// Every migration, as a user would run it.
pub(super) fn all() -> impl Iterator<Item = Migration> {
    (1..).zip(MIGRATIONS).map(|(version, sql)| {
        let table = if version == 1 { format!("{MIGRATIONS_TABLE};\n\n") } else { String::new() };
        let entry = format!(
            "INSERT INTO postrider_migrations (version, applied_at)\nVALUES ({version}, CAST(strftime('%s', 'now') AS INTEGER) * 1000000);"
        );
        Migration { version, sql: format!("{table}{}\n\n{entry}\n", sql.trim_end()) }
    })
}

/// Applies the missing migrations, all of them or none. Several processes may do so at once: one of them applies the
/// migrations, and the others wait for it.
pub(super) fn migrate(connection: &mut Connection) -> Attempt<Migrated> {
    let migrated = in_transaction(connection, TransactionBehavior::Immediate, |tx| {
        tx.execute_batch(MIGRATIONS_TABLE)?;
        let from = version(tx)?;
        schema::refuse_newer(PLACE, from, LATEST)?;
        if from > 0 {
            refuse_missing(tx)?;
        }
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

/// Refuses a file with another schema version, or with a view or virtual table in place of a table: that could run code
/// of another program.
pub(super) fn check(connection: &Connection) -> Attempt<()> {
    schema::check(PLACE, found(connection)?, LATEST)?;
    let sql = "SELECT name FROM sqlite_schema
               WHERE name IN ('postrider_events', 'postrider_subscriptions', 'postrider_parked', 'postrider_leases',
                              'postrider_relays', 'postrider_inbox', 'postrider_actions', 'postrider_migrations')
                 AND (type = 'view' OR type = 'table' AND sql LIKE 'CREATE VIRTUAL%')";
    match connection.query_row(sql, [], |row| row.get::<_, String>(0)).optional()? {
        None => refuse_missing(connection),
        Some(name) => Err(Error::new(Code::SchemaAltered, format!("{name} is not a table"))
            .with_hint("drop the object with this name and run `postrider migrate up`, or restore the file")
            .into()),
    }
}

/// Refuses a file some of whose tables were dropped.
fn refuse_missing(connection: &Connection) -> Attempt<()> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    let mut missing = Vec::new();
    for table in schema::TABLES.map(|table| format!("postrider_{table}")) {
        if connection.query_row(sql, [&table], |row| row.get::<_, i64>(0))? == 0 {
            missing.push(table);
        }
    }
    Ok(schema::refuse_missing(PLACE, &missing)?)
}

/// The triggers on Postrider's tables.
pub(super) fn triggers(connection: &Connection) -> Attempt<Vec<String>> {
    let sql = "SELECT name || ' on ' || tbl_name FROM sqlite_schema
               WHERE type = 'trigger' AND tbl_name LIKE 'postrider\\_%' ESCAPE '\\' ORDER BY 1";
    let mut statement = connection.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<std::result::Result<_, _>>()?)
}

/// The version of a file; 0 if it has none.
fn found(connection: &Connection) -> Attempt<i64> {
    let known = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'postrider_migrations'";
    match connection.query_row(known, [], |_| Ok(())).optional()? {
        Some(()) => version(connection),
        None => Ok(0),
    }
}

fn version(connection: &Connection) -> Attempt<i64> {
    let sql = "SELECT coalesce(max(version), 0) FROM postrider_migrations";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// Switches the file to WAL mode, in which readers and the writer do not block each other; the file keeps the mode.
/// SQLite does not wait for other processes here, so after a failed try this waits for the write lock and tries again.
pub(super) fn use_wal(connection: &mut Connection) -> Attempt<()> {
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
        .with_hint("move the file to a local disk; WAL needs shared memory")
        .into())
}
