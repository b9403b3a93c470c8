//! Creating the tables, and comparing an existing table with its layout.

use rusqlite::{Connection, OptionalExtension, params};

use super::super::failure::Attempt;
use super::super::lease::now;
use super::super::migrate::use_wal;
use super::super::worker::in_transaction;
use super::custom;
use super::sql::{Names, Sql};
use crate::layout::{
    Ability, Dialect, Difference, FoundColumn, FoundIndex, RowLayout, RowTable, Shape, compare,
};
use crate::store::row_state::tables::{
    RowExtras, RowsMigrated, check_names, check_owner, missing, refuse_harmful, with_migrate_hint,
};
use crate::store::schema::{self, Migrated, Migration, Schema};
use crate::{Code, Error, Result};

/// Every migration of Postrider's own tables, oldest first. A released one never changes.
const MIGRATIONS: &[&str] = &[
    include_str!("ledger.sql"),
    include_str!("refused.sql"),
    include_str!("../migrations/0002_inbox.sql"),
    include_str!("../migrations/0003_actions.sql"),
    concat!(include_str!("changes.sql"), "\n", include_str!("../migrations/0004_audit.sql")),
    include_str!("heartbeat.sql"),
];

/// The table that records these migrations. Not that of the default layout: the two may share a file.
const MIGRATIONS_TABLE: &str = "CREATE TABLE postrider_row_migrations (
    version    INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL
) STRICT;

";

const LATEST: i64 = MIGRATIONS.len() as i64;

const PLACE: &str = "the SQLite file";

/// The shape of the table; `None` for a mapped table.
///
/// # Errors
/// [`Code::LayoutDiffers`] if the layout does not exist on SQLite.
pub(super) fn shape(table: &RowTable) -> Result<Option<&'static Shape>> {
    if table.map.is_some() {
        return Ok(None);
    }
    let shape = table.layout.shapes_on(Dialect::Sqlite).first();
    shape.map(Some).ok_or_else(|| layout_unsupported(table.layout))
}

/// The error for a layout that does not exist on SQLite.
fn layout_unsupported(layout: RowLayout) -> Error {
    let what = format!("there is no layout {} on SQLite", layout.name());
    Error::new(Code::LayoutDiffers, what).with_hint("it exists for other databases only; use outbox_events")
}

/// The statements of a layout.
fn sql_of(layout: RowLayout) -> Result<Sql> {
    Sql::of(layout).ok_or_else(|| layout_unsupported(layout))
}

/// Refuses layouts and options that do not exist on SQLite.
fn check_supported(table: &RowTable, extras: RowExtras) -> Result<()> {
    let shape = shape(table)?;
    extras.check(table.layout)?;
    if extras.aggregate_index {
        return Err(Error::new(Code::NameInvalid, "outbox_events has no optional index on SQLite")
            .with_hint("remove the option; the index exists on the other databases only"));
    }
    check_names(table, shape.map_or(&[], std::slice::from_ref))
}

/// All migrations as SQL, for use with another tool: the layout's table and Postrider's.
pub(super) fn all(table: &RowTable, extras: RowExtras) -> Result<Vec<Migration>> {
    check_supported(table, extras)?;
    let created = sql_of(table.layout)?.create;
    let created = created.map_or_else(String::new, |sql| format!("{}\n", table.put_into_sqlite(sql)));
    let steps = (1..).zip(MIGRATIONS).map(|(version, sql)| {
        let (preamble, record) = match version {
            1 => (format!("{created}{MIGRATIONS_TABLE}"), record_table(table)),
            _ => Default::default(),
        };
        let entry = format!(
            "INSERT INTO postrider_row_migrations (version, applied_at)\nVALUES ({version}, CAST(strftime('%s', 'now') AS INTEGER) * 1000000);"
        );
        Migration { version, sql: format!("{preamble}{}\n\n{record}{entry}\n", sql.trim_end()) }
    });
    Ok(steps.collect())
}

/// Records which table Postrider's tables belong to. The names are checked identifiers, so they need no escaping.
fn record_table(table: &RowTable) -> String {
    let (layout, name) = (table.layout.name(), table.name.as_str());
    format!(
        "INSERT INTO postrider_row_table (only_one, layout, table_name) VALUES (1, '{layout}', '{name}');\n"
    )
}

/// Creates what is missing, all of it or nothing. An existing table is compared and not altered.
pub(super) fn migrate(
    connection: &mut Connection,
    table: &RowTable,
    extras: RowExtras,
) -> Attempt<RowsMigrated> {
    check_supported(table, extras)?;
    let migrated = in_transaction(connection, rusqlite::TransactionBehavior::Immediate, |tx| {
        let from = version(tx)?;
        schema::refuse_newer(PLACE, from, LATEST)?;
        let found = found(tx, table)?;
        refuse_harmful(table, found.as_deref().unwrap_or_default())?;
        let mut created = Vec::new();
        if let (None, Some(create)) = (&found, sql_of(table.layout)?.create) {
            tx.execute_batch(&table.put_into_sqlite(create))?;
            created.push(table.name.as_str().to_owned());
        }
        for (version, sql) in (1_i64..).zip(MIGRATIONS).filter(|(version, _)| *version > from) {
            let (preamble, record) =
                if version == 1 { (MIGRATIONS_TABLE, record_table(table)) } else { Default::default() };
            tx.execute_batch(&format!("{preamble}{sql}\n{record}"))?;
            let entry = "INSERT INTO postrider_row_migrations (version, applied_at) VALUES (?1, ?2)";
            tx.execute(entry, params![version, now(tx)?])?;
        }
        check_table(tx, table)?;
        let ledger = Migrated { from, to: LATEST };
        Ok(RowsMigrated { ledger, created, differences: found.unwrap_or_default() })
    })?;
    use_wal(connection)?;
    Ok(migrated)
}

/// The schema version of a file, 0 if it does not exist, and the version that this program needs.
pub(super) fn schema(connection: Option<&Connection>) -> Attempt<Schema> {
    Ok(Schema { found: connection.map_or(Ok(0), version)?, needed: LATEST })
}

/// Refuses a file without Postrider's tables, with those of another outbox, or with a table that does not match its
/// layout. Returns the table with its statements.
pub(super) fn check(connection: &Connection, table: &RowTable) -> Attempt<Names> {
    schema::check(PLACE, version(connection)?, LATEST).map_err(|error| with_migrate_hint(error, table))?;
    check_table(connection, table)?;
    refuse_harmful(table, &differences(connection, table)?)?;
    let own_limit = "SELECT 1 FROM pragma_table_info(?1) WHERE name = 'max_attempts'";
    let has_own_limit = connection.prepare(own_limit)?.exists([table.name.as_str()])?;
    Ok(Names {
        table: custom::inspect(connection, table)?,
        has_own_limit: has_own_limit && table.layout.has(Ability::RowLimitColumn),
        sql: sql_of(table.layout)?,
    })
}

/// How the table differs from the layout. A missing table is a difference, too.
pub(super) fn differences(connection: &Connection, table: &RowTable) -> Attempt<Vec<Difference>> {
    match found(connection, table)? {
        Some(different) => Ok(different),
        None => Ok(shape(table)?.map(|shape| missing(table, shape)).into_iter().collect()),
    }
}

/// Refuses Postrider's tables if they belong to another table.
fn check_table(connection: &Connection, table: &RowTable) -> Attempt<()> {
    let sql = "SELECT layout, table_name FROM postrider_row_table";
    let recorded = connection
        .query_row(sql, [], |row| Ok([row.get(0)?, table.schema.as_str().to_owned(), row.get(1)?]))
        .optional()?;
    Ok(check_owner(PLACE, recorded, table)?)
}

fn version(connection: &Connection) -> Attempt<i64> {
    if !is_table(connection, "postrider_row_migrations")? {
        return Ok(0);
    }
    let sql = "SELECT coalesce(max(version), 0) FROM postrider_row_migrations";
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

/// How an existing table differs; `None` if it does not exist.
fn found(connection: &Connection, table: &RowTable) -> Attempt<Option<Vec<Difference>>> {
    let name = table.name.as_str();
    if let Some(map) = &table.map {
        return custom::differences(connection, table, map).map(Some);
    }
    if !is_table(connection, name)? {
        return Ok(None);
    }
    let columns = columns(connection, name)?;
    // A primary key that is the rowid has no index. It is listed like one.
    let sql = "SELECT 'PRIMARY', (SELECT group_concat(name, ', ') FROM pragma_table_info(?1) WHERE pk > 0)
               UNION ALL
               SELECT i.name, (SELECT group_concat(name, ', ') FROM (SELECT name FROM pragma_index_info(i.name) ORDER BY seqno))
               FROM pragma_index_list(?1) AS i";
    let mut statement = connection.prepare(sql)?;
    let indexes = statement.query_map([name], |row| {
        let over: Option<String> = row.get(1)?;
        Ok(FoundIndex { name: row.get(0)?, definition: format!("btree ({})", over.unwrap_or_default()) })
    })?;
    let indexes: Vec<FoundIndex> = indexes.collect::<Result<_, _>>()?;
    Ok(shape(table)?.map(|shape| compare(table, shape, Dialect::Sqlite, &columns, &indexes)))
}

/// The columns of a table; none if it does not exist.
pub(super) fn columns(connection: &Connection, name: &str) -> Attempt<Vec<FoundColumn>> {
    let sql = "SELECT name, lower(type), \"notnull\" = 0 AND pk = 0, dflt_value IS NOT NULL OR pk > 0 FROM pragma_table_info(?1)";
    let mut statement = connection.prepare(sql)?;
    let columns = statement.query_map([name], |row| {
        Ok(FoundColumn {
            name: row.get(0)?,
            sql_type: row.get(1)?,
            is_nullable: row.get(2)?,
            has_default: row.get(3)?,
        })
    })?;
    Ok(columns.collect::<Result<_, _>>()?)
}

fn is_table(connection: &Connection, name: &str) -> Attempt<bool> {
    let sql = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
    Ok(connection.prepare_cached(sql)?.exists([name])?)
}
