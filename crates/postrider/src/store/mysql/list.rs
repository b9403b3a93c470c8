//! Lists events of the default layout.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};

use super::failure::failed;
use super::row::{self, get, get_opt};
use super::session::{Params, params};
use crate::store::search::{TimeSearch, page, passes, refuse_state, text};
use crate::store::{EventFilter, ListedEvent};
use crate::{Ident, Result, Timestamp};

/// A parameter in microseconds since 1970, as a time.
macro_rules! moment {
    () => {
        "TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ? MICROSECOND"
    };
}
pub(super) use moment;

/// `{conditions}` are those of the filter. Index: the primary key (position), backwards.
const LIST: &str = concat!(
    "SELECT position, id, type, aggregate_type, aggregate_id, ",
    row::micros!("time"),
    ", {payload}
     FROM {schema}.events FORCE INDEX (PRIMARY)
     WHERE position >= ? AND position < ?{conditions}
     ORDER BY position DESC
     LIMIT ?"
);

/// The first event at or after a position, and its time. Index: the primary key (position).
const AT: &str = concat!(
    "SELECT position, ",
    row::micros!("time"),
    " FROM {schema}.events WHERE position >= ? ORDER BY position LIMIT 1"
);

/// Index: the primary key (position), both ends.
const ENDS: &str = "SELECT COALESCE(MIN(position), 1), LEAST(COALESCE(MAX(position), 0), 9223372036854775806) + 1 FROM {schema}.events";

/// The ordering key of an event, as [`Event::ordering_key`](crate::Event::ordering_key) builds it.
const OF_KEY: &str = "COALESCE(`key`, CONCAT(REPLACE(REPLACE(aggregate_type, '%', '%25'), '/', '%2F'), '/', aggregate_id)) = ?";

const OF_ACTION: &str = "LOWER(REPLACE(JSON_UNQUOTE(JSON_EXTRACT(action, '$.id')), '-', '')) = ?";

/// The conditions of a filter, with their parameters.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    pub(super) sql: String,
    pub(super) params: Params,
}

impl Conditions {
    /// Adds a condition with one parameter, if there is a value for it.
    pub(super) fn when(mut self, condition: &str, value: Option<impl Into<mysql_async::Value>>) -> Self {
        if let Some(value) = value {
            self.sql.push_str(" AND ");
            self.sql.push_str(condition);
            self.params.push(value.into());
        }
        self
    }

    fn of(filter: &EventFilter) -> Self {
        let aggregate = filter.aggregate.as_ref();
        Self::default()
            .when("aggregate_type = ?", aggregate.map(|aggregate| &aggregate.kind))
            .when("aggregate_id = ?", aggregate.map(|aggregate| &aggregate.id))
            .when("type = ?", filter.event_type.as_ref())
            .when(OF_KEY, filter.key.as_ref())
            .when(OF_ACTION, filter.action_digits())
            .when(concat!("time >= ", moment!()), filter.since.map(Timestamp::as_micros))
            .when(concat!("time <= ", moment!()), filter.until.map(Timestamp::as_micros))
    }
}

/// The newest events that match a filter, newest first.
pub(super) async fn list(
    client: &mut Conn,
    schema: &Ident,
    filter: &EventFilter,
) -> Result<Vec<ListedEvent>> {
    refuse_state(filter)?;
    let (lower, mut upper) = bounds(client, schema, filter).await?;
    let mut found = Vec::new();
    while lower < upper && found.len() < filter.events_max {
        let rows = ask(client, schema, "", filter, (lower, upper, page(filter, found.len()))).await?;
        let Some(last) = rows.last() else { break };
        upper = get(last, 0)?;
        // The column contains bytes, so the condition on JSON is checked here.
        let wanted = rows.into_iter().map(listed).collect::<Result<Vec<_>>>()?;
        found.extend(wanted.into_iter().filter(|event| passes(event, filter.contains.as_ref())));
    }
    found.truncate(filter.events_max);
    Ok(found)
}

/// The query plan of [`list`].
pub(super) async fn plan(client: &mut Conn, schema: &Ident, filter: &EventFilter) -> Result<Vec<String>> {
    refuse_state(filter)?;
    let (lower, upper) = bounds(client, schema, filter).await?;
    let rows = ask(client, schema, EXPLAIN, filter, (lower, upper, page(filter, 0))).await?;
    Ok(rows.iter().map(plan_line).collect())
}

async fn ask(
    client: &mut Conn,
    schema: &Ident,
    before: &str,
    filter: &EventFilter,
    (lower, upper, most): (i64, i64, usize),
) -> Result<Vec<Row>> {
    let conditions = Conditions::of(filter);
    let payload = if filter.reads_payload() { "payload" } else { "NULL" };
    let list = LIST.replace("{conditions}", &conditions.sql).replace("{payload}", payload);
    let sql = schema.put_into_mysql(&format!("{before}{list}"));
    let mut values = params![lower, upper];
    values.extend(conditions.params);
    values.push(most.into());
    client.exec(sql, values).await.map_err(failed)
}

/// The positions that can match the times of the filter: the first, and the one after the last.
async fn bounds(client: &mut Conn, schema: &Ident, filter: &EventFilter) -> Result<(i64, i64)> {
    let row: Option<Row> = client.query_first(schema.put_into_mysql(ENDS)).await.map_err(failed)?;
    let (first, end): (i64, i64) = match row {
        Some(row) => (get(&row, 0)?, get(&row, 1)?),
        None => (1, 1),
    };
    let lower = search(client, schema, TimeSearch::since(filter, (first, end))).await?;
    let upper = search(client, schema, TimeSearch::until(filter, (lower, end))).await?;
    Ok((lower, filter.before_position().map_or(upper, |before| upper.min(before))))
}

async fn search(client: &mut Conn, schema: &Ident, mut search: TimeSearch) -> Result<i64> {
    let sql = schema.put_into_mysql(AT);
    while let Some(middle) = search.next_probe() {
        let row: Option<Row> = client.exec_first(sql.as_str(), params![middle]).await.map_err(failed)?;
        let at = |row: Row| -> Result<(i64, Timestamp)> { Ok((get(&row, 0)?, row::time(&row, 1)?)) };
        let event = row.map(at).transpose()?;
        search.narrow(middle, event);
    }
    Ok(search.found())
}

fn listed(mut row: Row) -> Result<ListedEvent> {
    Ok(ListedEvent {
        row: get::<i64>(&row, 0)?.to_string(),
        id: Some(row::uuid(&row, 1)?.to_string()),
        event_type: get(&row, 2)?,
        aggregate_type: get_opt(&row, 3)?,
        aggregate_id: get_opt(&row, 4)?,
        time: Some(row::time(&row, 5)?.to_string()),
        state: None,
        attempts: None,
        payload: row::bytes(&mut row, 6)?.map(text),
    })
}

/// The only plan format that MySQL and MariaDB have in common.
pub(super) const EXPLAIN: &str = "EXPLAIN FORMAT = TRADITIONAL ";

/// One line of such a plan.
pub(super) fn plan_line(row: &Row) -> String {
    let shown = ["table", "type", "key", "ref", "rows", "Extra"].map(|name| {
        let value: Option<String> = row.get_opt(name).and_then(Result::ok).flatten();
        format!("{name}: {}", value.unwrap_or_else(|| "-".to_owned()))
    });
    shown.join(", ")
}
