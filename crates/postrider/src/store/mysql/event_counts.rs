//! Counts events of any layout.

use super::row::get;
use super::session::{Params, Session};
use crate::Result;
use crate::store::{CountBy, CountGroup, EventCounts};

/// The percentiles of a column of `keyed`, per group, by linear interpolation between two neighbours: a row's weight is
/// one minus its distance from the percentile's rank, if that is less than one.
macro_rules! percentiles {
    ($seconds:literal) => {
        concat!(
            "SELECT subscription AS p_subscription, event_type AS p_event_type, producer AS p_producer, in_hour AS p_hour,
                    SUM(sec * GREATEST(0, 1 - ABS(place - (1 + 0.5 * (places - 1))))) AS p50,
                    SUM(sec * GREATEST(0, 1 - ABS(place - (1 + 0.95 * (places - 1))))) AS p95
             FROM (SELECT subscription, event_type, producer, in_hour, ",
            $seconds,
            " AS sec,
                          ROW_NUMBER() OVER (PARTITION BY subscription, event_type, producer, in_hour ORDER BY ",
            $seconds,
            ") AS place,
                          COUNT(*) OVER (PARTITION BY subscription, event_type, producer, in_hour) AS places
                   FROM keyed
                   WHERE ",
            $seconds,
            " IS NOT NULL) AS ranked
             GROUP BY subscription, event_type, producer, in_hour"
        )
    };
}

/// Reads every event, and sorts only those with percentiles: with a long history, the sort takes most of the time.
/// Index: none.
const COUNT_EVENTS: &str = concat!(
    "WITH keyed AS (
         SELECT f.subscription, {type} AS event_type, {producer} AS producer, {hour} AS in_hour, f.state, f.is_due,
                f.attempts,
                CASE WHEN f.state <> 'done'
                     THEN TIMESTAMPDIFF(MICROSECOND, f.created_at, UTC_TIMESTAMP(6)) * 1E-6 END AS lag_sec,
                CASE WHEN f.state = 'done'
                     THEN TIMESTAMPDIFF(MICROSECOND, f.created_at, f.delivered_at) * 1E-6 END AS latency_sec
         FROM ({events}) AS f
     ), counted AS (
         SELECT subscription, event_type, producer, in_hour,
                COUNT(*) AS total,
                COUNT(CASE WHEN state = 'pending' THEN 1 END) AS pending,
                COUNT(CASE WHEN state = 'failed' THEN 1 END) AS failed,
                COUNT(CASE WHEN state = 'done' THEN 1 END) AS done,
                COUNT(CASE WHEN is_due THEN 1 END) AS due,
                AVG(attempts) + 0E0 AS avg_attempts, MAX(attempts) AS max_attempts,
                AVG(lag_sec) AS avg_lag, MAX(lag_sec) AS max_lag,
                AVG(latency_sec) AS avg_latency, MAX(latency_sec) AS max_latency
         FROM keyed
         GROUP BY subscription, event_type, producer, in_hour
     ), lags AS (",
    percentiles!("lag_sec"),
    "), latencies AS (",
    percentiles!("latency_sec"),
    ")
     SELECT subscription, event_type, producer, in_hour, total, pending, failed, done, due, avg_attempts, max_attempts,
            avg_lag, lags.p50, lags.p95, max_lag, avg_latency, latencies.p50, latencies.p95, max_latency
     FROM counted
     LEFT JOIN lags ON lags.p_subscription <=> subscription AND lags.p_event_type <=> event_type
                   AND lags.p_producer <=> producer AND lags.p_hour <=> in_hour
     LEFT JOIN latencies ON latencies.p_subscription <=> subscription AND latencies.p_event_type <=> event_type
                        AND latencies.p_producer <=> producer AND latencies.p_hour <=> in_hour
     ORDER BY {order}
     LIMIT {most}"
);

const HOUR: &str = "TIMESTAMPDIFF(HOUR, '1970-01-01', f.created_at) * 3600000000";

/// Counts `events`, a SELECT with the columns of [`event_counts`](crate::store::event_counts).
pub(super) async fn count_events(
    session: &mut Session,
    by: CountBy,
    groups_max: usize,
    events: &str,
) -> Result<EventCounts> {
    let statement =
        by.put_into(COUNT_EVENTS, HOUR, events).replace("{most}", &groups_max.saturating_add(1).to_string());
    let mut snapshot = session.begin_read().await?;
    let rows = snapshot.query(&statement, Params::new()).await;
    let rows = snapshot.finish(rows).await?;
    let groups = rows.iter().map(|row| {
        CountGroup::of(|column| get(row, column), |column| get(row, column), |column| get(row, column))
    });
    Ok(EventCounts::of(groups.collect::<Result<_>>()?, groups_max))
}
