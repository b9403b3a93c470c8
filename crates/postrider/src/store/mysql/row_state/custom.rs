//! A user-defined table and its column map.

use super::super::row::get_opt;
use super::super::session::{Access, Session, params};
use super::migrate::{columns, holds};
use crate::Result;
use crate::layout::{ColumnMap, Difference, Family, FoundColumn, MappedField, RowTable, TimeColumns, length};
use crate::store::row_state::tables::id_is_no_key;

/// The length of ids in Postrider's own tables.
const ID_CHARS_MAX: usize = 255;

/// How the table differs from its map.
pub(super) async fn differences(
    session: &mut Session,
    table: &RowTable,
    map: &ColumnMap,
    found: &[FoundColumn],
) -> Result<Vec<Difference>> {
    let name = table.name.as_str();
    let mut all = map.differences(name, found, TimeColumns::TimeTypes);
    all.extend(map.unsupported_second_id());
    let column = |field| {
        let column = map.column(field)?;
        found.iter().find(|found| found.name == column.as_str())
    };
    if let Some(id) = column(MappedField::Id)
        && Family::of(&id.sql_type) == Some(Family::Text)
        && length(&id.sql_type).is_none_or(|most| most > ID_CHARS_MAX)
    {
        all.push(Difference::harmful(format!(
            "column {name}.{} is {}, but ids of more than {ID_CHARS_MAX} characters are not supported",
            id.name, id.sql_type
        )));
    }
    if let Some(id) = column(MappedField::Id)
        && !is_key(session, table, &id.name).await?
    {
        all.push(id_is_no_key(table, &id.name));
    }
    if let Some(status) = column(MappedField::Status).filter(|status| status.sql_type.starts_with("enum(")) {
        // An ENUM silently stores an unknown value as another one.
        let unknown = map.words().find(|word| !status.sql_type.contains(&word.to_string()));
        all.extend(unknown.map(|word| {
            let (column, is) = (&status.name, &status.sql_type);
            Difference::harmful(format!(
                "column {name}.{column} cannot hold the status value {word}: it is {is}"
            ))
        }));
    }
    Ok(all)
}

/// The table, with the types of its columns.
pub(super) async fn inspect(session: &mut Session, table: &RowTable) -> Result<RowTable> {
    let Some(id) = table.map.as_ref().and_then(|map| map.column(MappedField::Id)) else {
        return Ok(table.clone());
    };
    let found = columns(session, table).await?;
    // Index: those of the data dictionary.
    let sql = "SELECT collation_name FROM information_schema.columns
               WHERE table_schema = ? AND table_name = ? AND column_name = ?";
    let column = params![table.schema.as_str(), table.name.as_str(), id.as_str()];
    let rows = session.autocommit(Access::Reads, sql, column).await?;
    let collation = rows.first().map_or(Ok(None), |row| get_opt::<String>(row, 0))?;
    Ok(table.with_inspected_map(|map| map.with_types(&found).with_id_collation(collation)))
}

/// Whether a unique index covers exactly this column. Both parts have the names as values: MariaDB opens all tables of the
/// server for a name that comes from another table.
async fn is_key(session: &mut Session, table: &RowTable, column: &str) -> Result<bool> {
    let condition = "statistics AS s
        WHERE s.table_schema = ? AND s.table_name = ? AND s.non_unique = 0 AND s.column_name = ? AND s.sub_part IS NULL
          AND s.index_name NOT IN (SELECT other.index_name FROM information_schema.statistics AS other
                                   WHERE other.table_schema = ? AND other.table_name = ? AND other.seq_in_index > 1)";
    let (schema, name) = (table.schema.as_str(), table.name.as_str());
    holds(session, condition, params![schema, name, column, schema, name]).await
}
