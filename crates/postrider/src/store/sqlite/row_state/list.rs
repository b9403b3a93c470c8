//! Searching rows of `outbox_events`.
//!
//! Times in the table are texts with whole seconds: the statement compares seconds, and this module compares the rest.
//! It also compares payloads, because SQLite has no function for that.

use rusqlite::{Connection, Row, params};

use super::super::failure::Attempt;
use super::super::list::{explained, first, payload};
use super::sql::Names;
use crate::Timestamp;
use crate::store::row_state::search_unsupported;
use crate::store::{EventFilter, ListedEvent};

/// The newest rows that pass a filter, newest first.
pub(super) fn list(snapshot: &Connection, names: &Names, filter: &EventFilter) -> Attempt<Vec<ListedEvent>> {
    with_statement(names, filter, |sql, params| {
        first(snapshot, sql, params, filter, |row| listed(row, filter))
    })
}

/// The query plan of the search.
pub(super) fn plan(snapshot: &Connection, names: &Names, filter: &EventFilter) -> Attempt<Vec<String>> {
    with_statement(names, filter, |sql, params| explained(snapshot, sql, params))
}

/// Runs a query with the statement for a filter and its parameters.
fn with_statement<T>(
    names: &Names,
    filter: &EventFilter,
    query: impl FnOnce(&str, &[&dyn rusqlite::ToSql]) -> Attempt<T>,
) -> Attempt<T> {
    let Some(search) = names.sql.search else { return Err(search_unsupported().into()) };
    let aggregate = filter.aggregate.as_ref();
    let (kind, id) = (aggregate.map(|aggregate| &aggregate.kind), aggregate.map(|aggregate| &aggregate.id));
    let second = |time: Timestamp| time.as_micros().div_euclid(1_000_000);
    let since = filter.since.map(second);
    let until = filter.until.map(|until| second(until).saturating_add(1));
    match &filter.state {
        None => query(&names.put_into(search.all), params![kind, id, filter.event_type, since, until]),
        Some(state) => {
            query(&names.put_into(search.of_state), params![kind, id, filter.event_type, since, until, state])
        }
    }
}

fn listed(row: &Row<'_>, filter: &EventFilter) -> Attempt<Option<ListedEvent>> {
    // Another program may have written a text that is not a time.
    let time = row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros);
    let is_in_time = filter.since.is_none_or(|since| time.is_some_and(|time| time >= since))
        && filter.until.is_none_or(|until| time.is_some_and(|time| time <= until));
    if !is_in_time {
        return Ok(None);
    }
    Ok(Some(ListedEvent {
        row: row.get::<_, i64>(0)?.to_string(),
        id: None,
        event_type: row.get(2)?,
        aggregate_type: row.get(3)?,
        aggregate_id: row.get(4)?,
        time: Some(match time {
            Some(time) => time.to_string(),
            None => payload(row.get_ref(9)?),
        }),
        state: row.get(6)?,
        attempts: row.get(7)?,
        payload: Some(payload(row.get_ref(8)?)),
    }))
}
