//! Looking for rows, each question on the index its seed has for it.
//!
//! Only what is asked for stands in the statement: a condition that is always true would keep these servers from their
//! indexes. Texts are compared as the table's collation has it.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::super::failure::failed;
use super::super::list::{Conditions, EXPLAIN, moment, plan_line};
use super::super::row::{self, get, get_opt};
use super::super::session::Params;
use super::migrate::not_here;
use crate::layout::{RowLayout, RowTable};
use crate::store::row_state::unlisted;
use crate::store::search::text;
use crate::store::{EventFilter, ListedEvent};
use crate::{Result, Timestamp};

/// Indexes: idx_event_outbox_entity_time (entity_table, entity_pk, created_at) for an aggregate,
/// idx_event_outbox_created_at (created_at) for a time and for the newest of all. None for payloads.
const EVENT_OUTBOX: &str = concat!(
    "SELECT t.id, t.event_key, t.event_type, t.entity_table, t.entity_pk, ",
    row::micros!("t.created_at"),
    ", t.status, t.attempts, t.payload, t.created_at
     FROM {table} AS t
     WHERE TRUE{asked}
     ORDER BY t.created_at DESC, t.id DESC
     LIMIT ?"
);

/// Index: idx_outbox_events_aggregate (aggregate_type, aggregate_id), which is optional, for an aggregate; else
/// idx_outbox_events_status_created_at (status, created_at), the newest of one state. None for payloads.
const OUTBOX_EVENTS: &str = concat!(
    "SELECT t.id, NULL, t.event_type, t.aggregate_type, t.aggregate_id, ",
    row::micros!("t.created_at"),
    ", t.status, t.attempt_count, t.payload, t.created_at
     FROM {table} AS t {forced}
     WHERE TRUE{asked}
     ORDER BY t.created_at DESC, t.id DESC
     LIMIT ?"
);

/// MariaDB rather reads and sorts a whole table whose rows are all in one state, however few are wanted.
const FORCED: &str = "FORCE INDEX (`idx_{name}_status_created_at`)";
const INDEX: &str = "idx_{name}_status_created_at";

/// A row that holds no JSON, in a column that allows it, has nothing in it.
const CONTAINS: &str = "CASE WHEN JSON_VALID(t.payload) THEN JSON_CONTAINS(t.payload, ?) ELSE FALSE END";

/// The states of `outbox_events`.
const STATES: [&str; 4] = ["PENDING", "PUBLISHING", "PUBLISHED", "FAILED"];

/// A statement and its parameters.
type Statement = (String, Params);

fn statement(layout: RowLayout, filter: &EventFilter) -> Option<Statement> {
    match layout {
        RowLayout::EventOutbox => {
            Some(one(EVENT_OUTBOX, filter, "t.entity_table = ?", "t.entity_pk = ?", filter.status.as_deref()))
        }
        RowLayout::OutboxEvents if filter.aggregate.is_some() || filter.status.is_some() => {
            Some(of_outbox_events(filter, filter.status.as_deref()))
        }
        RowLayout::OutboxEvents => Some(of_every_state(filter)),
        RowLayout::Outbox | RowLayout::Custom => None,
    }
}

/// The newest of each state, and of these the newest.
fn of_every_state(filter: &EventFilter) -> Statement {
    let (texts, mut values): (Vec<_>, Vec<_>) =
        STATES.into_iter().map(|state| of_outbox_events(filter, Some(state))).unzip();
    values.push(vec![filter.events_max.into()]);
    let all = texts.join(")\nUNION ALL\n(");
    (format!("({all})\nORDER BY 10 DESC, 1 DESC LIMIT ?"), values.concat())
}

fn of_outbox_events(filter: &EventFilter, status: Option<&str>) -> Statement {
    one(OUTBOX_EVENTS, filter, "t.aggregate_type = ?", "t.aggregate_id = ?", status)
}

fn one(text: &str, filter: &EventFilter, kind: &str, id: &str, status: Option<&str>) -> Statement {
    let aggregate = filter.aggregate.as_ref();
    let mut asked = Conditions::default()
        .when(kind, aggregate.map(|aggregate| &aggregate.kind))
        .when(id, aggregate.map(|aggregate| &aggregate.id))
        .when("t.status = ?", status)
        .when("t.event_type = ?", filter.event_type.as_ref())
        .when(concat!("t.created_at >= ", moment!()), filter.since.map(Timestamp::as_micros))
        .when(concat!("t.created_at <= ", moment!()), filter.until.map(Timestamp::as_micros))
        .when(CONTAINS, filter.contains.as_ref().map(ToString::to_string));
    asked.params.push(filter.events_max.into());
    (text.replace("{asked}", &asked.sql), asked.params)
}

/// The newest rows that pass a filter, newest first.
pub(super) async fn list(
    client: &mut Conn,
    table: &RowTable,
    filter: &EventFilter,
) -> Result<Vec<ListedEvent>> {
    ask(client, table, "", filter).await?.into_iter().map(listed).collect()
}

/// How the database finds them.
pub(super) async fn plan(client: &mut Conn, table: &RowTable, filter: &EventFilter) -> Result<Vec<String>> {
    Ok(ask(client, table, EXPLAIN, filter).await?.iter().map(plan_line).collect())
}

async fn ask(client: &mut Conn, table: &RowTable, before: &str, filter: &EventFilter) -> Result<Vec<Row>> {
    let (text, values) = statement(table.layout, filter).ok_or_else(|| match table.layout {
        RowLayout::Custom => unlisted(),
        other => not_here(other),
    })?;
    let by_state = table.layout == RowLayout::OutboxEvents && filter.aggregate.is_none();
    let forced = if by_state && has_index(client, table).await? { FORCED } else { "" };
    let sql = table.put_into_mysql(&format!("{before}{}", text.replace("{forced}", forced)));
    client.exec(sql, values).await.map_err(failed)
}

/// Whether the table has the index of [`FORCED`]; somebody's own may lack it.
async fn has_index(client: &mut Conn, table: &RowTable) -> Result<bool> {
    // Index: the dictionary's own, by name.
    let sql = "SELECT COUNT(*) > 0 FROM information_schema.statistics
               WHERE table_schema = ? AND table_name = ? AND index_name = ?";
    let index = table.put_into_mysql(INDEX);
    let asked = (table.schema.as_str(), table.name.as_str(), index.as_str());
    Ok(client.exec_first(sql, asked).await.map_err(failed)?.unwrap_or(false))
}

fn listed(mut row: Row) -> Result<ListedEvent> {
    Ok(ListedEvent {
        place: get::<i64>(&row, 0)?.to_string(),
        id: get_opt(&row, 1)?,
        event_type: get(&row, 2)?,
        aggregate_type: get_opt(&row, 3)?,
        aggregate_id: get_opt(&row, 4)?,
        time: Some(row::time(&row, 5)?.to_string()),
        status: get_opt(&row, 6)?,
        attempts: get_opt(&row, 7)?,
        payload: row::bytes(&mut row, 8)?.map(text).unwrap_or_default(),
    })
}
