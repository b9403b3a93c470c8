//! Looking for rows of `outbox_events`.
//!
//! A time in the table is a text; the statement finds whole seconds by it and here the rest is compared. What is in a
//! payload is compared here too: SQLite has no function for it, and its rows cost nothing before they are read.

use rusqlite::{Connection, Row, params};

use super::super::failure::Attempt;
use super::super::list::{explained, first, payload};
use super::sql::Names;
use crate::Timestamp;
use crate::store::row_state::unlisted;
use crate::store::{EventFilter, ListedEvent};

/// The newest rows that pass a filter, newest first.
pub(super) fn list(snapshot: &Connection, names: &Names, filter: &EventFilter) -> Attempt<Vec<ListedEvent>> {
    ask(names, filter, |sql, asked| first(snapshot, sql, asked, filter, |row| listed(row, filter)))
}

/// How the database finds them.
pub(super) fn plan(snapshot: &Connection, names: &Names, filter: &EventFilter) -> Attempt<Vec<String>> {
    ask(names, filter, |sql, asked| explained(snapshot, sql, asked))
}

/// Asks with the statement for a filter and its parameters.
fn ask<T>(
    names: &Names,
    filter: &EventFilter,
    question: impl FnOnce(&str, &[&dyn rusqlite::ToSql]) -> Attempt<T>,
) -> Attempt<T> {
    let Some(search) = names.sql.search else { return Err(unlisted().into()) };
    let aggregate = filter.aggregate.as_ref();
    let (kind, id) = (aggregate.map(|aggregate| &aggregate.kind), aggregate.map(|aggregate| &aggregate.id));
    let second = |time: Timestamp| time.as_micros().div_euclid(1_000_000);
    let since = filter.since.map(second);
    let until = filter.until.map(|until| second(until).saturating_add(1));
    match &filter.status {
        None => question(&names.put_into(search.all), params![kind, id, filter.event_type, since, until]),
        Some(status) => question(
            &names.put_into(search.of_state),
            params![kind, id, filter.event_type, since, until, status],
        ),
    }
}

fn listed(row: &Row<'_>, filter: &EventFilter) -> Attempt<Option<ListedEvent>> {
    // Another process may have written what is no time.
    let time = row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros);
    let is_in_time = filter.since.is_none_or(|since| time.is_some_and(|time| time >= since))
        && filter.until.is_none_or(|until| time.is_some_and(|time| time <= until));
    if !is_in_time {
        return Ok(None);
    }
    Ok(Some(ListedEvent {
        place: row.get::<_, i64>(0)?.to_string(),
        id: None,
        event_type: row.get(2)?,
        aggregate_type: row.get(3)?,
        aggregate_id: row.get(4)?,
        time: Some(match time {
            Some(time) => time.to_string(),
            None => payload(row.get_ref(9)?),
        }),
        status: row.get(6)?,
        attempts: row.get(7)?,
        payload: payload(row.get_ref(8)?),
    }))
}
