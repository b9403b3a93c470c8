//! Searching rows, with the indexes of each layout.
//!
//! A statement contains only the requested conditions: with a condition that is always true, these servers would not
//! use their indexes. Texts are compared by the table's collation.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};

use super::super::failure::failed;
use super::super::list::{Conditions, EXPLAIN, moment, plan_line};
use super::super::row::{self, get, get_opt};
use super::super::session::Params;
use super::migrate::layout_unsupported;
use super::sql::{ByState, Search, Sql};
use crate::layout::RowTable;
use crate::store::row_state::search_unsupported;
use crate::store::search::text;
use crate::store::{EventFilter, ListedEvent};
use crate::{Result, Timestamp};

/// A payload that is not JSON never matches.
const CONTAINS: &str = "CASE WHEN JSON_VALID(t.payload) THEN JSON_CONTAINS(t.payload, ?) ELSE FALSE END";

/// A statement and its parameters.
type Statement = (String, Params);

fn statement(search: &Search, filter: &EventFilter) -> Statement {
    match search.by_state {
        Some(by_state) if filter.aggregate.is_none() && filter.state.is_none() => {
            of_every_state(search, by_state, filter)
        }
        _ => one(search, filter, filter.state.as_deref()),
    }
}

/// The newest rows of each state, merged.
fn of_every_state(search: &Search, by_state: ByState, filter: &EventFilter) -> Statement {
    let (texts, mut values): (Vec<_>, Vec<_>) =
        by_state.states.iter().map(|state| one(search, filter, Some(state))).unzip();
    values.push(vec![filter.events_max.into()]);
    let all = texts.join(")\nUNION ALL\n(");
    (format!("({all})\nORDER BY 10 DESC, 1 DESC LIMIT ?"), values.concat())
}

fn one(search: &Search, filter: &EventFilter, state: Option<&str>) -> Statement {
    let aggregate = filter.aggregate.as_ref();
    let mut conditions = Conditions::default()
        .when(search.aggregate[0], aggregate.map(|aggregate| &aggregate.kind))
        .when(search.aggregate[1], aggregate.map(|aggregate| &aggregate.id))
        .when(search.action, filter.action.map(|action| action.to_string()))
        .when("t.status = ?", state)
        .when("t.event_type = ?", filter.event_type.as_ref())
        .when(concat!("t.created_at >= ", moment!()), filter.since.map(Timestamp::as_micros))
        .when(concat!("t.created_at <= ", moment!()), filter.until.map(Timestamp::as_micros))
        .when(CONTAINS, filter.contains.as_ref().map(ToString::to_string));
    conditions.params.push(filter.events_max.into());
    (search.statement.replace("{conditions}", &conditions.sql), conditions.params)
}

/// The newest rows that pass a filter, newest first.
pub(super) async fn list(
    client: &mut Conn,
    table: &RowTable,
    filter: &EventFilter,
) -> Result<Vec<ListedEvent>> {
    run(client, table, "", filter).await?.into_iter().map(listed).collect()
}

/// The query plan of the search.
pub(super) async fn plan(client: &mut Conn, table: &RowTable, filter: &EventFilter) -> Result<Vec<String>> {
    Ok(run(client, table, EXPLAIN, filter).await?.iter().map(plan_line).collect())
}

async fn run(client: &mut Conn, table: &RowTable, before: &str, filter: &EventFilter) -> Result<Vec<Row>> {
    let sql = Sql::of(table.layout).ok_or_else(|| layout_unsupported(table.layout))?;
    let search = sql.search.ok_or_else(search_unsupported)?;
    let (text, values) = statement(&search, filter);
    let index = search.by_state.filter(|_| filter.aggregate.is_none()).map(|by_state| by_state.index);
    // MariaDB would read and sort the whole table if all its rows have the same state, even for a small limit.
    let index_hint = match index {
        Some(index) if has_index(client, table, index).await? => format!("FORCE INDEX (`{index}`)"),
        _ => String::new(),
    };
    let sql = table.put_into_mysql(&format!("{before}{}", text.replace("{index_hint}", &index_hint)));
    client.exec(sql, values).await.map_err(failed)
}

/// Whether the table has an index. A table that Postrider did not create may lack it.
async fn has_index(client: &mut Conn, table: &RowTable, index: &str) -> Result<bool> {
    // Index: those of the data dictionary.
    let sql = "SELECT COUNT(*) > 0 FROM information_schema.statistics
               WHERE table_schema = ? AND table_name = ? AND index_name = ?";
    let index = table.put_into_mysql(index);
    let names = (table.schema.as_str(), table.name.as_str(), index.as_str());
    Ok(client.exec_first(sql, names).await.map_err(failed)?.unwrap_or(false))
}

/// A number or a text.
fn row_id(row: &Row) -> Result<String> {
    match row.as_ref(0) {
        Some(Value::Bytes(_)) => get(row, 0),
        _ => Ok(get::<i64>(row, 0)?.to_string()),
    }
}

fn listed(mut row: Row) -> Result<ListedEvent> {
    Ok(ListedEvent {
        row: row_id(&row)?,
        id: get_opt(&row, 1)?,
        event_type: get(&row, 2)?,
        aggregate_type: get_opt(&row, 3)?,
        aggregate_id: get_opt(&row, 4)?,
        time: Some(row::time(&row, 5)?.to_string()),
        state: get_opt(&row, 6)?,
        attempts: get_opt(&row, 7)?,
        payload: Some(row::bytes(&mut row, 8)?.map(text).unwrap_or_default()),
    })
}
