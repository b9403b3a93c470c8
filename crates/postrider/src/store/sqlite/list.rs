//! Lists events of the default layout.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::failure::Attempt;
use super::row::uuid;
use crate::Timestamp;
use crate::store::search::{TimeSearch, passes, refuse_state, text};
use crate::store::{EventFilter, ListedEvent};

/// Index: the primary key (position), backwards.
const LIST: &str = "
    SELECT position, id, type, aggregate_type, aggregate_id, time, NULL, NULL, CASE WHEN ?8 THEN payload END
    FROM postrider_events
    WHERE position >= ?1 AND position < ?2
      AND (?3 IS NULL OR aggregate_type = ?3) AND (?4 IS NULL OR aggregate_id = ?4)
      AND (?5 IS NULL OR type = ?5)
      AND (?6 IS NULL OR time >= ?6) AND (?7 IS NULL OR time <= ?7)
      AND (?9 IS NULL
           OR coalesce(key, replace(replace(aggregate_type, '%', '%25'), '/', '%2F') || '/' || aggregate_id) = ?9)
      AND (?10 IS NULL OR lower(replace(json_extract(action, '$.id'), '-', '')) = ?10)
    ORDER BY position DESC";

/// The first event at or after a position, and its time. Index: the primary key (position).
const AT: &str = "SELECT position, time FROM postrider_events WHERE position >= ?1 ORDER BY position LIMIT 1";

/// Index: the primary key (position), both ends.
const ENDS: &str = "
    SELECT coalesce((SELECT min(position) FROM postrider_events), 1),
           min(coalesce((SELECT max(position) FROM postrider_events), 0), 9223372036854775806) + 1";

/// The newest events that match a filter, newest first.
pub(super) fn list(snapshot: &Connection, filter: &EventFilter) -> Attempt<Vec<ListedEvent>> {
    query(snapshot, filter, |params| first(snapshot, LIST, params, filter, listed))
}

/// The query plan of [`list`].
pub(super) fn plan(snapshot: &Connection, filter: &EventFilter) -> Attempt<Vec<String>> {
    query(snapshot, filter, |params| explained(snapshot, LIST, params))
}

/// Runs a query with the parameters of [`LIST`].
fn query<T>(
    snapshot: &Connection,
    filter: &EventFilter,
    run: impl FnOnce(&[&dyn rusqlite::ToSql]) -> Attempt<T>,
) -> Attempt<T> {
    refuse_state(filter)?;
    let (first, end) = snapshot.query_row(ENDS, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let lower = search(snapshot, TimeSearch::since(filter, (first, end)))?;
    let upper = search(snapshot, TimeSearch::until(filter, (lower, end)))?;
    let upper = filter.before_position().map_or(upper, |before| upper.min(before));
    let aggregate = filter.aggregate.as_ref();
    run(params![
        lower,
        upper,
        aggregate.map(|aggregate| &aggregate.kind),
        aggregate.map(|aggregate| &aggregate.id),
        filter.event_type,
        filter.since.map(Timestamp::as_micros),
        filter.until.map(Timestamp::as_micros),
        filter.reads_payload(),
        filter.key,
        filter.action_digits(),
    ])
}

/// The first rows of a query that match the filter. SQLite produces rows as they are read, so later rows cost nothing.
pub(super) fn first(
    snapshot: &Connection,
    sql: &str,
    params: impl Params,
    filter: &EventFilter,
    listed: impl Fn(&Row<'_>) -> Attempt<Option<ListedEvent>>,
) -> Attempt<Vec<ListedEvent>> {
    let mut statement = snapshot.prepare(sql)?;
    let mut rows = statement.query(params)?;
    let mut found = Vec::new();
    while found.len() < filter.events_max {
        let Some(row) = rows.next()? else { break };
        found.extend(listed(row)?.filter(|event| passes(event, filter.contains.as_ref())));
    }
    Ok(found)
}

/// The query plan of a statement.
pub(super) fn explained(snapshot: &Connection, sql: &str, params: impl Params) -> Attempt<Vec<String>> {
    let mut statement = snapshot.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
    let lines = statement.query_map(params, |row| row.get(3))?.collect::<Result<_, _>>()?;
    Ok(lines)
}

fn search(snapshot: &Connection, mut search: TimeSearch) -> Attempt<i64> {
    let mut statement = snapshot.prepare(AT)?;
    while let Some(middle) = search.next_probe() {
        let event = statement.query_row([middle], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        search.narrow(middle, event.map(|(position, micros)| (position, Timestamp::from_micros(micros))));
    }
    Ok(search.found())
}

fn listed(row: &Row<'_>) -> Attempt<Option<ListedEvent>> {
    Ok(Some(ListedEvent {
        row: row.get::<_, i64>(0)?.to_string(),
        id: Some(uuid(row.get_ref(1)?)?.to_string()),
        event_type: row.get(2)?,
        aggregate_type: row.get(3)?,
        aggregate_id: row.get(4)?,
        time: Some(Timestamp::from_micros(row.get(5)?).to_string()),
        state: None,
        attempts: None,
        payload: match row.get_ref(8)? {
            ValueRef::Null => None,
            value => Some(payload(value)),
        },
    }))
}

/// A payload of any type, for operators.
pub(super) fn payload(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => text(bytes.to_vec()),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Null => String::new(),
    }
}
