//! A user-defined table and its column map.

use rusqlite::Connection;

use super::super::failure::Attempt;
use super::migrate::columns;
use crate::layout::{ColumnMap, Difference, MappedField, RowTable, TimeColumns};
use crate::store::row_state::tables::{id_is_no_key, missing_custom};

/// How the table differs from its map.
pub(super) fn differences(
    connection: &Connection,
    table: &RowTable,
    map: &ColumnMap,
) -> Attempt<Vec<Difference>> {
    let name = table.name.as_str();
    let found = columns(connection, name)?;
    if found.is_empty() {
        return Ok(vec![missing_custom(table)]);
    }
    let map = &map.clone().with_rowid(has_rowid(connection, table));
    let mut all = map.differences(name, &found, TimeColumns::TimeTypesAndTexts);
    all.extend(map.unsupported_second_id());
    if table.is_shared {
        let what = "a table of layout custom cannot be shared on SQLite: its rows have no claim state";
        all.push(Difference::harmful(what.to_owned()));
    }
    if map.only_notes_deliveries() && reuses_ids(connection, name)? {
        all.push(Difference::harmful(format!(
            "{name} may reuse the number of a deleted row for a new row, which would then be treated as \
             delivered: declare the key AUTOINCREMENT, map a column for `status` or `delivered_at`, or set \
             `delete_delivered`"
        )));
    }
    if let Some(id) = map.column(MappedField::Id)
        && found.iter().any(|column| column.name == id.as_str())
        && !is_key(connection, name, id.as_str())?
    {
        all.push(id_is_no_key(table, id.as_str()));
    }
    Ok(all)
}

/// The table, with the types of its columns.
pub(super) fn inspect(connection: &Connection, table: &RowTable) -> Attempt<RowTable> {
    if table.map.is_none() {
        return Ok(table.clone());
    }
    let found = columns(connection, table.name.as_str())?;
    let has_rowid = has_rowid(connection, table);
    Ok(table.with_inspected_map(|map| map.with_types(&found).with_rowid(has_rowid)))
}

/// Whether the table has a rowid.
fn has_rowid(connection: &Connection, table: &RowTable) -> bool {
    connection.prepare(&table.put_into_sqlite("SELECT rowid FROM {table} LIMIT 0")).is_ok()
}

/// Whether the key is the rowid, and SQLite reuses the numbers of deleted rows.
fn reuses_ids(connection: &Connection, table: &str) -> Attempt<bool> {
    let sql = "SELECT 1 FROM sqlite_schema
               WHERE type = 'table' AND name = ?1 AND sql NOT LIKE '%AUTOINCREMENT%'
                 AND EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE pk = 1 AND upper(type) = 'INTEGER')";
    Ok(connection.prepare(sql)?.exists([table])?)
}

/// Whether the primary key or a unique index covers exactly this column, and all rows.
fn is_key(connection: &Connection, table: &str, column: &str) -> Attempt<bool> {
    let sql = "SELECT 1 FROM pragma_table_info(?1) AS c
               WHERE c.name = ?2 AND c.pk = 1
                 AND NOT EXISTS (SELECT 1 FROM pragma_table_info(?1) AS other WHERE other.pk > 1)
               UNION ALL
               SELECT 1 FROM pragma_index_list(?1) AS i
               WHERE i.\"unique\" = 1 AND i.partial = 0
                 AND (SELECT count(*) = 1 AND max(name) = ?2 FROM pragma_index_info(i.name))";
    Ok(connection.prepare(sql)?.exists([table, column])?)
}
