//! A user-defined table and its column map.

use super::super::row::get_opt;
use super::super::session::{Access, Session, params};
use super::migrate::{columns, holds};
use crate::Result;
use crate::layout::{ColumnMap, Difference, Family, Field, FoundColumn, RowTable, Times, length};

/// What our own tables have room for.
const ID_CHARS_MAX: usize = 255;

fn harmful(what: String) -> Difference {
    Difference { what, is_harmful: true }
}

/// The difference of a table that is not there.
pub(super) fn missing(table: &RowTable) -> Difference {
    let name = table.name.as_str();
    harmful(format!("there is no table {name:?}, and Postrider does not create tables of this layout"))
}

/// Why the table cannot be worked on by its map, and what is worth knowing.
pub(super) async fn differences(
    session: &mut Session,
    table: &RowTable,
    map: &ColumnMap,
    found: &[FoundColumn],
) -> Result<Vec<Difference>> {
    let name = table.name.as_str();
    let mut all = map.differences(name, found, Times::Typed);
    all.extend(map.refuse_key_of_two());
    let column = |field| {
        let column = map.column(field)?;
        found.iter().find(|found| found.name == column.as_str())
    };
    if let Some(id) = column(Field::Id)
        && Family::of(&id.sql_type) == Some(Family::Text)
        && length(&id.sql_type).is_none_or(|most| most > ID_CHARS_MAX)
    {
        all.push(harmful(format!(
            "column {name}.{} is {}, but ids of more than {ID_CHARS_MAX} characters are not supported",
            id.name, id.sql_type
        )));
    }
    if let Some(id) = column(Field::Id)
        && !is_key(session, table, &id.name).await?
    {
        all.push(harmful(format!(
            "column {name}.{} is not a unique key: it needs a unique index over this column alone",
            id.name
        )));
    }
    if let Some(status) = column(Field::Status).filter(|status| status.sql_type.starts_with("enum(")) {
        // An ENUM takes a word it does not know for another without a word.
        let unknown = map.words().find(|word| !status.sql_type.contains(&word.to_string()));
        all.extend(unknown.map(|word| {
            let (column, is) = (&status.name, &status.sql_type);
            harmful(format!("column {name}.{column} cannot hold the status value {word}: it is {is}"))
        }));
    }
    Ok(all)
}

/// The table with the types of its columns.
pub(super) async fn learnt(session: &mut Session, table: &RowTable) -> Result<RowTable> {
    let Some(id) = table.map.as_ref().and_then(|map| map.column(Field::Id)) else { return Ok(table.clone()) };
    let found = columns(session, table).await?;
    // Index: the dictionary's own, by name.
    let sql = "SELECT collation_name FROM information_schema.columns
               WHERE table_schema = ? AND table_name = ? AND column_name = ?";
    let place = params![table.schema.as_str(), table.name.as_str(), id.as_str()];
    let rows = session.autocommit(Access::Reads, sql, place).await?;
    let collation = rows.first().map_or(Ok(None), |row| get_opt::<String>(row, 0))?;
    Ok(table.knowing(|map| map.with_types(&found).with_id_collation(collation)))
}

/// Whether one unique index is over this column alone.
async fn is_key(session: &mut Session, table: &RowTable, column: &str) -> Result<bool> {
    let condition = "statistics AS s
        WHERE s.table_schema = ? AND s.table_name = ? AND s.non_unique = 0 AND s.column_name = ? AND s.sub_part IS NULL
          AND NOT EXISTS (SELECT 1 FROM information_schema.statistics AS other
                          WHERE other.table_schema = s.table_schema AND other.table_name = s.table_name
                            AND other.index_name = s.index_name AND other.seq_in_index > 1)";
    holds(session, condition, params![table.schema.as_str(), table.name.as_str(), column]).await
}
