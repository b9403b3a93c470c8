//! Lists events of the default layout.

use tokio_postgres::{Client, Row};

use super::failure::failed;
use super::row::get;
use super::statement::{Params, query_unnamed};
use super::time::Time;
use crate::event::Aggregate;
use crate::store::row_limit;
use crate::store::search::{TimeSearch, page, passes, refuse_state};
use crate::store::{EventFilter, ListedEvent};
use crate::{Ident, Result, Timestamp};

/// Index: the primary key (position), backwards.
const LIST: &str = "
    SELECT e.position::text, id::text, type, aggregate_type, aggregate_id, time, NULL::text, NULL::bigint,
           CASE WHEN $9 THEN {schema}.payload_text(payload) END, e.position
    FROM ONLY {schema}.events AS e
    WHERE e.position >= $1 AND e.position < $2
      AND ($3::text IS NULL OR aggregate_type = $3) AND ($4::text IS NULL OR aggregate_id = $4)
      AND ($5::text IS NULL OR type = $5)
      AND ($6::timestamptz IS NULL OR time >= $6) AND ($7::timestamptz IS NULL OR time <= $7)
      AND ($10::text IS NULL
           OR key = $10 OR aggregate_id = $13 AND aggregate_type = $12 AND key IS NULL)
      AND ($11::text IS NULL OR lower(replace(action->>'id', '-', '')) = $11)
    ORDER BY e.position DESC
    LIMIT $8";

/// The first event at or after a position, and its time. Index: the primary key (position).
const AT: &str = "
    SELECT position, time FROM ONLY {schema}.events WHERE position >= $1 ORDER BY position LIMIT 1";

/// Index: the primary key (position), both ends.
const ENDS: &str = "
    SELECT coalesce(min(position), 1), least(coalesce(max(position), 0), 9223372036854775806) + 1
    FROM ONLY {schema}.events";

/// The newest events that match a filter, newest first.
pub(super) async fn list(client: &Client, schema: &Ident, filter: &EventFilter) -> Result<Vec<ListedEvent>> {
    refuse_state(filter)?;
    let (lower, mut upper) = bounds(client, schema, filter).await?;
    let sql = schema.put_into(LIST);
    let mut found = Vec::new();
    while lower < upper && found.len() < filter.events_max {
        let rows = ask(client, &sql, filter, (lower, upper, page(filter, found.len()))).await?;
        let Some(last) = rows.last() else { break };
        upper = get(last, 9)?;
        // The column contains bytes, so the condition on JSON is checked here.
        let wanted = rows.iter().map(listed).collect::<Result<Vec<_>>>()?;
        found.extend(wanted.into_iter().filter(|event| passes(event, filter.contains.as_ref())));
    }
    found.truncate(filter.events_max);
    Ok(found)
}

/// The query plan of [`list`].
pub(super) async fn plan(client: &Client, schema: &Ident, filter: &EventFilter) -> Result<Vec<String>> {
    refuse_state(filter)?;
    let (lower, upper) = bounds(client, schema, filter).await?;
    let sql = schema.put_into(&format!("EXPLAIN (COSTS OFF) {LIST}"));
    let rows = ask(client, &sql, filter, (lower, upper, page(filter, 0))).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

async fn ask(
    client: &Client,
    sql: &str,
    filter: &EventFilter,
    (lower, upper, most): (i64, i64, usize),
) -> Result<Vec<Row>> {
    let kind = filter.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str());
    let id = filter.aggregate.as_ref().map(|aggregate| aggregate.id.as_str());
    let (since, until) = (filter.since.map(Time), filter.until.map(Time));
    let most = row_limit(most);
    let (with_payload, action) = (filter.reads_payload(), filter.action_digits());
    // Comparing two columns costs a third of building the key of each row.
    let of_key = filter.key.as_deref().and_then(Aggregate::of_ordering_key);
    let of_key = of_key.as_ref();
    let (key_kind, key_id) = (of_key.map(|of| of.kind.as_str()), of_key.map(|of| of.id.as_str()));
    let params: Params<'_> = &[
        &lower,
        &upper,
        &kind,
        &id,
        &filter.event_type,
        &since,
        &until,
        &most,
        &with_payload,
        &filter.key,
        &action,
        &key_kind,
        &key_id,
    ];
    query_unnamed(client, sql, params).await.map_err(failed)
}

/// The positions that can match the times of the filter: the first, and the one after the last.
async fn bounds(client: &Client, schema: &Ident, filter: &EventFilter) -> Result<(i64, i64)> {
    let rows = query_unnamed(client, &schema.put_into(ENDS), &[]).await.map_err(failed)?;
    let (first, end): (i64, i64) = match rows.first() {
        Some(row) => (get(row, 0)?, get(row, 1)?),
        None => (1, 1),
    };
    let lower = search(client, schema, TimeSearch::since(filter, (first, end))).await?;
    let upper = search(client, schema, TimeSearch::until(filter, (lower, end))).await?;
    Ok((lower, filter.before_position().map_or(upper, |before| upper.min(before))))
}

async fn search(client: &Client, schema: &Ident, mut search: TimeSearch) -> Result<i64> {
    let sql = schema.put_into(AT);
    while let Some(middle) = search.next_probe() {
        let rows = query_unnamed(client, &sql, &[&middle]).await.map_err(failed)?;
        let at = |row: &Row| -> Result<(i64, Timestamp)> { Ok((get(row, 0)?, get::<Time>(row, 1)?.0)) };
        let event = rows.first().map(at).transpose()?;
        search.narrow(middle, event);
    }
    Ok(search.found())
}

/// Nine columns: row, id, type, aggregate type and id, time, state, attempts, payload.
pub(super) fn listed(row: &Row) -> Result<ListedEvent> {
    Ok(ListedEvent {
        row: get(row, 0)?,
        id: get(row, 1)?,
        event_type: get(row, 2)?,
        aggregate_type: get(row, 3)?,
        aggregate_id: get(row, 4)?,
        time: get::<Option<Time>>(row, 5)?.map(|time| time.0.to_string()),
        state: get(row, 6)?,
        attempts: get(row, 7)?,
        payload: get(row, 8)?,
    })
}
