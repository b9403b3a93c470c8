//! Counts events of any layout.

use tokio_postgres::Client;

use super::failure::failed;
use super::row::get;
use super::statement::query_unnamed;
use crate::Result;
use crate::store::row_limit;
use crate::store::{CountBy, CountGroup, EventCounts};

/// Reads every event once, without its payload. `$1`: the maximum number of groups. Index: none.
const COUNT_EVENTS: &str = "
    SELECT subscription, event_type, producer, in_hour,
           count(*),
           count(*) FILTER (WHERE state = 'pending'),
           count(*) FILTER (WHERE state = 'failed'),
           count(*) FILTER (WHERE state = 'done'),
           count(*) FILTER (WHERE is_due),
           avg(attempts)::double precision, max(attempts)::bigint,
           avg(lag_sec), percentile_cont(0.5) WITHIN GROUP (ORDER BY lag_sec),
           percentile_cont(0.95) WITHIN GROUP (ORDER BY lag_sec), max(lag_sec),
           avg(latency_sec), percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_sec),
           percentile_cont(0.95) WITHIN GROUP (ORDER BY latency_sec), max(latency_sec)
    FROM (SELECT f.subscription, {type}::text AS event_type, {producer}::text AS producer, {hour}::bigint AS in_hour,
                 f.state, f.is_due, f.attempts,
                 CASE WHEN f.state <> 'done'
                      THEN extract(epoch FROM statement_timestamp() - f.created_at)::double precision END AS lag_sec,
                 CASE WHEN f.state = 'done'
                      THEN extract(epoch FROM f.delivered_at - f.created_at)::double precision END AS latency_sec
          FROM ({events}) AS f) AS keyed
    GROUP BY subscription, event_type, producer, in_hour
    ORDER BY {order}
    LIMIT $1";

const HOUR: &str = "(extract(epoch FROM date_trunc('hour', f.created_at, 'UTC')) * 1000000)";

/// Counts `events`, a SELECT with the columns of [`event_counts`](crate::store::event_counts).
pub(super) async fn count_events(
    client: &Client,
    by: CountBy,
    groups_max: usize,
    events: &str,
) -> Result<EventCounts> {
    let limit = row_limit(groups_max.saturating_add(1));
    let rows =
        query_unnamed(client, &by.put_into(COUNT_EVENTS, HOUR, events), &[&limit]).await.map_err(failed)?;
    let groups = rows.iter().map(|row| {
        CountGroup::of(|column| get(row, column), |column| get(row, column), |column| get(row, column))
    });
    Ok(EventCounts::of(groups.collect::<Result<_>>()?, groups_max))
}
