//! Looking for events of the default layout. Its table has one index, the position; times grow with positions, more or
//! less, so a time is searched for among the positions.

use serde_json::Value;
use tokio_postgres::{Client, Row};

use super::failure::failed;
use super::row::get;
use super::statement::{Params, query_unnamed};
use super::time::Time;
use crate::store::list::contains;
use crate::store::{EventFilter, ListedEvent};
use crate::{Code, Error, Ident, Result, Timestamp};

/// Events read at a time.
const PAGE_EVENTS: i64 = 1_000;

/// How far the time of an event may be from that of its neighbours: writers say it themselves. One that is further off is not
/// found by a search by time.
const ASTRAY_MICROS: i64 = 60 * 60 * 1_000_000;

/// Index: the primary key (position), backwards.
const LIST: &str = "
    SELECT e.position::text, id::text, type, aggregate_type, aggregate_id, time, NULL::text, NULL::bigint,
           {schema}.payload_text(payload), e.position
    FROM {schema}.events AS e
    WHERE e.position >= $1 AND e.position < $2
      AND ($3::text IS NULL OR aggregate_type = $3) AND ($4::text IS NULL OR aggregate_id = $4)
      AND ($5::text IS NULL OR type = $5)
      AND ($6::timestamptz IS NULL OR time >= $6) AND ($7::timestamptz IS NULL OR time <= $7)
    ORDER BY e.position DESC
    LIMIT $8";

/// The first event at or behind a position, and its time. Index: the primary key (position).
const AT: &str = "
    SELECT position, time FROM {schema}.events WHERE position >= $1 ORDER BY position LIMIT 1";

/// Index: the primary key (position), both ends.
const ENDS: &str = "SELECT coalesce(min(position), 1), coalesce(max(position), 0) + 1 FROM {schema}.events";

/// The newest events that pass a filter, newest first.
pub(super) async fn list(client: &Client, schema: &Ident, filter: &EventFilter) -> Result<Vec<ListedEvent>> {
    refuse_status(filter)?;
    let (lower, mut upper) = bounds(client, schema, filter).await?;
    let sql = schema.put_into(LIST);
    let mut found = Vec::new();
    while lower < upper && found.len() < filter.events_max {
        let rows = ask(client, &sql, filter, (lower, upper, page(filter, found.len()))).await?;
        let Some(last) = rows.last() else { break };
        upper = get(last, 9)?;
        let wanted = rows.iter().map(listed).collect::<Result<Vec<_>>>()?;
        found.extend(wanted.into_iter().filter(|event| passes(event, filter.contains.as_ref())));
    }
    found.truncate(filter.events_max);
    Ok(found)
}

/// An event of this layout has no state of its own: each subscription has its progress.
fn refuse_status(filter: &EventFilter) -> Result<()> {
    match &filter.status {
        None => Ok(()),
        Some(_) => Err(Error::new(Code::LayoutDiffers, "events of the default layout have no status")
            .hint("leave --status out; `postrider status` tells how far each subscription is")),
    }
}

/// How the database finds them.
pub(super) async fn plan(client: &Client, schema: &Ident, filter: &EventFilter) -> Result<Vec<String>> {
    refuse_status(filter)?;
    let (lower, upper) = bounds(client, schema, filter).await?;
    let sql = schema.put_into(&format!("EXPLAIN (COSTS OFF) {LIST}"));
    let rows = ask(client, &sql, filter, (lower, upper, page(filter, 0))).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// How many to read next: no more than are wanted, unless some of them may not pass.
fn page(filter: &EventFilter, found: usize) -> i64 {
    match filter.contains {
        Some(_) => PAGE_EVENTS,
        None => i64::try_from(filter.events_max.saturating_sub(found)).unwrap_or(i64::MAX).min(PAGE_EVENTS),
    }
}

async fn ask(
    client: &Client,
    sql: &str,
    filter: &EventFilter,
    (lower, upper, most): (i64, i64, i64),
) -> Result<Vec<Row>> {
    let kind = filter.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str());
    let id = filter.aggregate.as_ref().map(|aggregate| aggregate.id.as_str());
    let (since, until) = (filter.since.map(Time), filter.until.map(Time));
    let params: Params<'_> = &[&lower, &upper, &kind, &id, &filter.event_type, &since, &until, &most];
    query_unnamed(client, sql, params).await.map_err(failed)
}

/// Between which positions the times lie: from, and up to but without.
async fn bounds(client: &Client, schema: &Ident, filter: &EventFilter) -> Result<(i64, i64)> {
    let rows = query_unnamed(client, &schema.put_into(ENDS), &[]).await.map_err(failed)?;
    let (first, end): (i64, i64) = match rows.first() {
        Some(row) => (get(row, 0)?, get(row, 1)?),
        None => (1, 1),
    };
    let lower = match filter.since {
        Some(since) => search(client, schema, (first, end), moved(since, -ASTRAY_MICROS)).await?,
        None => first,
    };
    let upper = match filter.until {
        Some(until) => search(client, schema, (lower, end), moved(until, ASTRAY_MICROS)).await?,
        None => end,
    };
    Ok((lower, upper))
}

fn moved(time: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(time.as_micros().saturating_add(micros))
}

/// The first position whose event is not older than a time, by halving: as many looks as the number has bits.
async fn search(client: &Client, schema: &Ident, between: (i64, i64), time: Timestamp) -> Result<i64> {
    let sql = schema.put_into(AT);
    let (mut lower, mut upper) = between;
    while lower < upper {
        let middle = lower + (upper - lower) / 2;
        let rows = query_unnamed(client, &sql, &[&middle]).await.map_err(failed)?;
        match rows.first() {
            Some(row) if get::<Time>(row, 1)?.0 < time => lower = get::<i64>(row, 0)? + 1,
            _ => upper = middle,
        }
    }
    Ok(lower)
}

/// Nine columns: place, id, type, aggregate type and id, time, status, attempts, payload.
pub(super) fn listed(row: &Row) -> Result<ListedEvent> {
    Ok(ListedEvent {
        place: get(row, 0)?,
        id: get(row, 1)?,
        event_type: get(row, 2)?,
        aggregate_type: get(row, 3)?,
        aggregate_id: get(row, 4)?,
        time: get::<Time>(row, 5)?.0.to_string(),
        status: get(row, 6)?,
        attempts: get(row, 7)?,
        payload: get(row, 8)?,
    })
}

/// The payload is bytes here, and what of it is JSON only a reader can tell.
fn passes(event: &ListedEvent, part: Option<&Value>) -> bool {
    part.is_none_or(|part| {
        serde_json::from_str::<Value>(&event.payload).is_ok_and(|payload| contains(&payload, part))
    })
}
