//! Counts events of any layout.

use rusqlite::Connection;

use super::failure::Attempt;
use super::lease::now;
use crate::store::row_limit;
use crate::store::{CountBy, CountGroup, EventCounts};

/// A percentile, by linear interpolation between two neighbours: a row's weight is one minus its distance from the
/// percentile's rank, if that is less than one.
macro_rules! percentile {
    ($seconds:literal, $place:literal, $places:literal, $share:literal) => {
        concat!(
            "sum(",
            $seconds,
            " * max(0, 1 - abs(",
            $place,
            " - (1 + ",
            $share,
            " * (",
            $places,
            " - 1)))))"
        )
    };
}

/// Reads every event once. Times are in microseconds. `?1`: the current time; `?2`: the maximum number of groups.
/// Index: none.
const COUNT_EVENTS: &str = concat!(
    "SELECT subscription, event_type, producer, in_hour,
            count(*),
            count(*) FILTER (WHERE state = 'pending'),
            count(*) FILTER (WHERE state = 'failed'),
            count(*) FILTER (WHERE state = 'done'),
            count(*) FILTER (WHERE is_due),
            avg(attempts), max(attempts),
            avg(lag_sec), ",
    percentile!("lag_sec", "lag_place", "lag_places", "0.5"),
    ", ",
    percentile!("lag_sec", "lag_place", "lag_places", "0.95"),
    ", max(lag_sec), avg(latency_sec), ",
    percentile!("latency_sec", "latency_place", "latency_places", "0.5"),
    ", ",
    percentile!("latency_sec", "latency_place", "latency_places", "0.95"),
    ", max(latency_sec)
     FROM (SELECT keyed.*,
                  row_number() OVER (PARTITION BY subscription, event_type, producer, in_hour
                                     ORDER BY lag_sec IS NULL, lag_sec) AS lag_place,
                  count(lag_sec) OVER (PARTITION BY subscription, event_type, producer, in_hour) AS lag_places,
                  row_number() OVER (PARTITION BY subscription, event_type, producer, in_hour
                                     ORDER BY latency_sec IS NULL, latency_sec) AS latency_place,
                  count(latency_sec) OVER (PARTITION BY subscription, event_type, producer, in_hour) AS latency_places
           FROM (SELECT f.subscription, {type} AS event_type, {producer} AS producer, {hour} AS in_hour, f.state,
                        f.is_due, f.attempts,
                        CASE WHEN f.state <> 'done' THEN (?1 - f.created_at) / 1000000.0 END AS lag_sec,
                        CASE WHEN f.state = 'done' THEN (f.delivered_at - f.created_at) / 1000000.0 END AS latency_sec
                 FROM ({events}) AS f) AS keyed) AS ranked
     GROUP BY subscription, event_type, producer, in_hour
     ORDER BY {order}
     LIMIT ?2"
);

/// The remainder is made positive, so that the hour is also correct before 1970.
const HOUR: &str = "f.created_at - (f.created_at % 3600000000 + 3600000000) % 3600000000";

/// Counts `events`, a SELECT with the columns of [`event_counts`](crate::store::event_counts) and times in microseconds.
pub(super) fn count_events(
    snapshot: &Connection,
    by: CountBy,
    groups_max: usize,
    events: &str,
) -> Attempt<EventCounts> {
    let limit = row_limit(groups_max.saturating_add(1));
    let mut statement = snapshot.prepare(&by.put_into(COUNT_EVENTS, HOUR, events))?;
    let groups = statement
        .query_map([now(snapshot)?, limit], |row| {
            CountGroup::of(|column| row.get(column), |column| row.get(column), |column| row.get(column))
        })?
        .collect::<Result<_, _>>()?;
    Ok(EventCounts::of(groups, groups_max))
}
