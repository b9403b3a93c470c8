//! The schema version of a database, and the one that this program needs.

use crate::{Code, Error, Result};

/// The result of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; 0 if there was no schema.
    pub from: i64,
    /// The version after it.
    pub to: i64,
}

/// The schema version of a database, and the one that this program needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// The version of the database; 0 if it has none of Postrider's tables.
    pub found: i64,
    /// The version that this program needs.
    pub needed: i64,
}

/// One migration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migration {
    /// The schema version after it.
    pub version: i64,
    /// The SQL to run in one transaction: the migration and its entry in the table of migrations.
    pub sql: String,
}

/// Refuses the schema of a newer program. `database` is its name for the message.
pub(super) fn refuse_newer(database: &str, version: i64, latest: i64) -> Result<()> {
    if version > latest {
        let what = format!("{database} has schema {version}, this program knows {latest}");
        return Err(Error::new(Code::SchemaNewer, what));
    }
    Ok(())
}

/// Rejects every schema version except the one this program needs.
pub(super) fn check(database: &str, version: i64, latest: i64) -> Result<()> {
    refuse_newer(database, version, latest)?;
    if version < latest {
        let what = format!("{database} has schema {version}, this program needs {latest}");
        return Err(Error::new(Code::SchemaMissing, what));
    }
    Ok(())
}

/// The tables that the first migration creates.
pub(super) const TABLES: [&str; 5] = ["events", "subscriptions", "parked", "leases", "relays"];

/// Rejects a database whose migrations were applied but whose tables do not all exist: they were dropped, and the
/// migrations would not create them again. `missing` are their full names.
pub(super) fn refuse_missing(database: &str, missing: &[String]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let which = missing.join(", ");
    let what =
        format!("{which} missing from {database}, although its migrations were applied: dropped afterwards");
    Err(Error::new(Code::SchemaAltered, what).with_hint(format!(
        "restore the table from a backup; if its content is not needed, drop all of Postrider's tables ({}, \
         migrations; on MySQL and MariaDB also empty_positions; in SQLite their names start with postrider_) and run \
         `postrider migrate up`",
        TABLES.join(", ")
    )))
}
