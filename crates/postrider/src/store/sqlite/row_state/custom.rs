//! A user-defined table and its column map.

use rusqlite::Connection;

use super::super::failure::Attempt;
use super::migrate::columns;
use crate::layout::{ColumnMap, Difference, Field, RowTable, Times};

/// Why the table cannot be worked on by its map, and what is worth knowing.
pub(super) fn differences(
    connection: &Connection,
    table: &RowTable,
    map: &ColumnMap,
) -> Attempt<Vec<Difference>> {
    let name = table.name.as_str();
    let found = columns(connection, name)?;
    let harmful = |what| Difference { what, is_harmful: true };
    if found.is_empty() {
        let what = format!("there is no table {name:?}, and Postrider does not create tables of this layout");
        return Ok(vec![harmful(what)]);
    }
    let map = &map.clone().with_rowid(has_rowid(connection, table));
    let mut all = map.differences(name, &found, Times::Texts);
    all.extend(map.refuse_key_of_two());
    if table.is_shared {
        let what = "a table of layout custom cannot be shared on SQLite: its rows have no claim state";
        all.push(harmful(what.to_owned()));
    }
    if map.only_notes_deliveries() && gives_ids_again(connection, name)? {
        all.push(harmful(format!(
            "{name} may reuse the number of a deleted row for a new row, which would then be treated as \
             delivered: declare the key AUTOINCREMENT, map a column for `status` or `delivered_at`, or set \
             `delete_delivered`"
        )));
    }
    if let Some(id) = map.column(Field::Id)
        && found.iter().any(|column| column.name == id.as_str())
        && !is_key(connection, name, id.as_str())?
    {
        all.push(harmful(format!(
            "column {name}.{} is not a unique key: it needs a unique index over this column alone",
            id.as_str()
        )));
    }
    Ok(all)
}

/// The table with the types of its columns.
pub(super) fn learnt(connection: &Connection, table: &RowTable) -> Attempt<RowTable> {
    if table.map.is_none() {
        return Ok(table.clone());
    }
    let found = columns(connection, table.name.as_str())?;
    let has_rowid = has_rowid(connection, table);
    Ok(table.knowing(|map| map.with_types(&found).with_rowid(has_rowid)))
}

/// Whether rows have a number of their own.
fn has_rowid(connection: &Connection, table: &RowTable) -> bool {
    connection.prepare(&table.put_into_sqlite("SELECT rowid FROM {table} LIMIT 0")).is_ok()
}

/// Whether the key is the number of the row and numbers of deleted rows are given out again.
fn gives_ids_again(connection: &Connection, table: &str) -> Attempt<bool> {
    let sql = "SELECT 1 FROM sqlite_schema
               WHERE type = 'table' AND name = ?1 AND sql NOT LIKE '%AUTOINCREMENT%'
                 AND EXISTS (SELECT 1 FROM pragma_table_info(?1) WHERE pk = 1 AND upper(type) = 'INTEGER')";
    Ok(connection.prepare(sql)?.exists([table])?)
}

/// Whether the primary key or one unique index is over this column alone, and over all rows.
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
