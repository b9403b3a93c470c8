//! Searching rows, with the indexes of each layout.
//!
//! The statements are planned at every use with their parameters, so the planner ignores a condition whose parameter is
//! NULL.

use serde_json::Value;
use tokio_postgres::{Client, Row};

use super::super::failure::failed;
use super::super::list::listed;
use super::super::row::get;
use super::super::statement::{Params, query_unnamed};
use super::super::time::Time;
use super::sql::Sql;
use crate::layout::{MappedField, RowTable};
use crate::store::row_limit;
use crate::store::search::{PAGE_EVENTS, passes};
use crate::store::{EventFilter, ListedEvent};
use crate::{Ident, Result};

/// The statement for a filter.
const fn statement(table: &RowTable, filter: &EventFilter) -> &'static str {
    let sql = Sql::of(table.layout);
    match sql.search_action {
        Some(of_action) if filter.action.is_some() => of_action,
        _ if filter.aggregate.is_some() => sql.search_aggregate,
        _ => sql.search,
    }
}

/// The newest rows that pass a filter, newest first.
pub(super) async fn list(
    client: &Client,
    schema: &Ident,
    table: &RowTable,
    filter: &EventFilter,
) -> Result<Vec<ListedEvent>> {
    let sql = schema.put_into(&table.put_into(statement(table, filter)));
    if filter.contains.is_some() && !is_jsonb(client, table).await? {
        return list_texts(client, &sql, filter).await;
    }
    let events_max = row_limit(filter.events_max);
    search(client, &sql, filter, filter.contains.as_ref(), events_max).await?.iter().map(listed).collect()
}

/// Whether the payloads are jsonb, so that the database can search all of them.
async fn is_jsonb(client: &Client, table: &RowTable) -> Result<bool> {
    // Index: those of the catalog.
    let sql = "SELECT atttypid = 'jsonb'::regtype FROM pg_attribute
               WHERE attrelid = to_regclass($1) AND attname = $2";
    let mapped = table.map.as_ref().and_then(|map| map.column(MappedField::Payload));
    let column = mapped.map_or("payload", |column| column.as_str());
    let rows = query_unnamed(client, sql, &[&table.put_into("{table}"), &column]).await.map_err(failed)?;
    rows.first().map_or(Ok(true), |row| get(row, 0))
}

/// The same if payloads are texts. Texts that are not JSON never match. The rows are read page by page, from the
/// caller's snapshot, until there are enough.
async fn list_texts(client: &Client, sql: &str, filter: &EventFilter) -> Result<Vec<ListedEvent>> {
    let declare = format!("DECLARE found NO SCROLL CURSOR FOR {sql}");
    search(client, &declare, filter, None, i64::MAX).await?;
    let mut found = Vec::new();
    while found.len() < filter.events_max {
        let fetch = format!("FETCH {PAGE_EVENTS} FROM found");
        let rows = query_unnamed(client, &fetch, &[]).await.map_err(failed)?;
        if rows.is_empty() {
            break;
        }
        let events = rows.iter().map(listed).collect::<Result<Vec<_>>>()?;
        found.extend(events.into_iter().filter(|event| passes(event, filter.contains.as_ref())));
    }
    found.truncate(filter.events_max);
    Ok(found)
}

/// The query plan of the search.
pub(super) async fn plan(
    client: &Client,
    schema: &Ident,
    table: &RowTable,
    filter: &EventFilter,
) -> Result<Vec<String>> {
    let sql = table.put_into(statement(table, filter));
    let sql = schema.put_into(&format!("EXPLAIN (COSTS OFF) {sql}"));
    let events_max = row_limit(filter.events_max);
    let part = match &filter.contains {
        Some(part) if is_jsonb(client, table).await? => Some(part),
        _ => None,
    };
    search(client, &sql, filter, part, events_max).await?.iter().map(|row| get(row, 0)).collect()
}

async fn search(
    client: &Client,
    sql: &str,
    filter: &EventFilter,
    part: Option<&Value>,
    events_max: i64,
) -> Result<Vec<Row>> {
    let kind = filter.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str());
    let id = filter.aggregate.as_ref().map(|aggregate| aggregate.id.as_str());
    let (since, until) = (filter.since.map(Time), filter.until.map(Time));
    let part = part.map(ToString::to_string);
    let action = filter.action.map(|action| action.to_string());
    let params: Params<'_> =
        &[&kind, &id, &filter.event_type, &since, &until, &part, &filter.state, &events_max, &action];
    // Only the statement for an action has its parameter.
    let given = if action.is_some() { params } else { &params[..params.len() - 1] };
    query_unnamed(client, sql, given).await.map_err(failed)
}

/// The unique keys of the layout's `processed_events` without the consumer group: they exclude a second group. `None`
/// if there is no such table.
pub(super) async fn keys_of_one_group(client: &Client, table: &RowTable) -> Result<Option<Vec<String>>> {
    // Index: those of the catalog.
    let sql = "SELECT to_regclass($1) IS NOT NULL,
                      array(SELECT c.relname || ' (' || string_agg(a.attname, ', ' ORDER BY k.ordinal) || ')'
                            FROM pg_index AS i
                            JOIN pg_class AS c ON c.oid = i.indexrelid
                            CROSS JOIN unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (number, ordinal)
                            JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.number
                            WHERE i.indrelid = to_regclass($1) AND i.indisunique AND k.ordinal <= i.indnkeyatts
                            GROUP BY c.relname
                            HAVING NOT bool_or(a.attname = 'consumer_group')
                            ORDER BY 1)";
    let name = table.put_into("{processed}");
    let rows = query_unnamed(client, sql, &[&name]).await.map_err(failed)?;
    match rows.first() {
        Some(row) if get(row, 0)? => get(row, 1).map(Some),
        _ => Ok(None),
    }
}
