//! A user-defined table and its column map.

use tokio_postgres::Client;

use super::super::failure::failed;
use super::super::statement::query_unnamed;
use super::migrate::columns;
use crate::Result;
use crate::layout::{ColumnMap, Difference, MappedField, RowTable, TimeColumns};
use crate::store::row_state::tables::missing_custom;

/// How the table differs from its map.
pub(super) async fn differences(
    client: &Client,
    table: &RowTable,
    map: &ColumnMap,
) -> Result<Vec<Difference>> {
    let (table_name, name) = (table.put_into("{table}"), table.name.as_str());
    let found = columns(client, &table_name).await?;
    if found.is_empty() {
        return Ok(vec![missing_custom(table)]);
    }
    let mut all = map.differences(name, &found, TimeColumns::TimeTypes);
    if all.iter().any(|difference| difference.is_harmful) {
        return Ok(all);
    }
    if let Some(is) = map.headers_with_event_type(&found)
        && !matches!(is, "json" | "jsonb")
    {
        let what = format!(
            "the type of events is in a header, but the column for `headers` is {is}: it must be json or jsonb"
        );
        return Ok(vec![Difference::harmful(what)]);
    }
    let key: Vec<&str> = [MappedField::Id, MappedField::SecondId]
        .iter()
        .filter_map(|id| map.column(*id))
        .map(|id| id.as_str())
        .collect();
    if !is_key(client, &table_name, &key).await? {
        all.push(Difference::harmful(match key.as_slice() {
            [one, two] => format!(
                "columns {name}.{one} and {name}.{two} are not a unique key together: they need a unique index over exactly these two columns"
            ),
            _ => format!(
                "column {name}.{} is not a unique key: it needs a unique index over this column alone",
                key.concat()
            ),
        }));
    }
    if table.is_shared && (map.deletes_deliveries() || sets_key(client, &table_name, map).await?) {
        let what = "with `shared`, a row is locked while Postrider publishes it, so its delivery must not \
                    change its keys or delete it: remove `shared` or `delete_delivered`, or remove the column \
                    from the unique index";
        all.push(Difference::harmful(what.to_owned()));
    }
    if let Some(what) = unfit_status(client, &table_name, name, map).await? {
        all.push(Difference::harmful(what));
    }
    Ok(all)
}

/// The table, with the types of its columns.
pub(super) async fn inspect(client: &Client, table: &RowTable) -> Result<RowTable> {
    if table.map.is_none() {
        return Ok(table.clone());
    }
    let found = columns(client, &table.put_into("{table}")).await?;
    Ok(table.with_inspected_map(|map| map.with_types(&found)))
}

/// Whether a unique index covers exactly these columns, and all rows.
async fn is_key(client: &Client, table_name: &str, columns: &[&str]) -> Result<bool> {
    // Index: those of the catalog.
    let sql = "SELECT EXISTS (SELECT
                              FROM pg_index AS i
                              WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid
                                AND i.indpred IS NULL AND i.indnkeyatts = cardinality($2::text[])
                                AND NOT EXISTS (SELECT
                                                FROM unnest($2::text[]) AS wanted (name)
                                                WHERE NOT EXISTS (SELECT
                                                                  FROM pg_attribute AS a
                                                                  WHERE a.attrelid = i.indrelid AND a.attname = wanted.name
                                                                    AND a.attnum = ANY ((i.indkey::smallint[])[0:i.indnkeyatts - 1]))))";
    let rows = query_unnamed(client, sql, &[&table_name, &columns.to_vec()]).await.map_err(failed)?;
    rows.first().map_or(Ok(false), |row| row.try_get(0)).map_err(failed)
}

/// Whether a delivery sets a column of a unique index. Such an update would wait for Postrider's own row locks.
async fn sets_key(client: &Client, table_name: &str, map: &ColumnMap) -> Result<bool> {
    let columns =
        [MappedField::Status, MappedField::DeliveredAt, MappedField::GivenUpAt, MappedField::Attempts];
    let names: Vec<&str> =
        columns.iter().filter_map(|field| map.column(*field)).map(|name| name.as_str()).collect();
    // Index: those of the catalog.
    let sql = "SELECT EXISTS (SELECT
                              FROM pg_index AS i
                              JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                              WHERE i.indrelid = to_regclass($1) AND i.indisunique AND a.attname = ANY ($2::text[]))";
    let rows = query_unnamed(client, sql, &[&table_name, &names]).await.map_err(failed)?;
    rows.first().map_or(Ok(false), |row| row.try_get(0)).map_err(failed)
}

/// The first status value that the column cannot hold, if there is one. Then the current transaction has failed.
async fn unfit_status(
    client: &Client,
    table_name: &str,
    name: &str,
    map: &ColumnMap,
) -> Result<Option<String>> {
    let Some(column) = map.column(MappedField::Status) else { return Ok(None) };
    for word in map.words() {
        let sql = format!("SELECT FROM {table_name} WHERE {column} = {word} LIMIT 0");
        let Err(error) = query_unnamed(client, &sql, &[]).await else { continue };
        let Some(reported) = error.as_db_error() else { return Err(failed(error)) };
        let (column, why) = (column.as_str(), reported.message());
        return Ok(Some(format!("column {name}.{column} cannot hold the status value {word}: {why}")));
    }
    Ok(None)
}
