//! Events counted by type, hour or producer: shows operators where a backlog comes from.
//!
//! Each layout has a SELECT of its events with the same columns: `subscription`, `event_type`, `producer`,
//! `created_at`, `delivered_at`, `state` (pending, failed or done), `is_due` and `attempts`. Each database counts them
//! in one statement, for every layout.

use crate::Timestamp;

/// How events are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CountBy {
    /// By type.
    Type,
    /// By the hour of their creation, in UTC.
    Hour,
    /// By producer and type.
    Producer,
}

/// The events that an outbox still contains, counted.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct EventCounts {
    /// Largest backlog first; hours newest first.
    pub groups: Vec<CountGroup>,
    /// There are more groups than were requested.
    pub more: bool,
}

/// The events of one subscription in one group.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct CountGroup {
    /// The subscription; `None` if there is none yet.
    pub subscription: Option<String>,
    /// The type, unless grouped by hour.
    pub event_type: Option<String>,
    /// The producer, if grouped by producer and it is known.
    pub producer: Option<String>,
    /// The beginning of the hour, if grouped by hour.
    pub hour: Option<Timestamp>,
    /// Events in the group.
    pub total: u64,
    /// Neither failed nor done.
    pub pending: u64,
    /// Failed: to be retried, or given up.
    pub failed: u64,
    /// Delivered, or filtered out.
    pub done: u64,
    /// Not done and due now.
    pub due: u64,
    /// Average attempts, where the layout counts them.
    pub attempts_avg: Option<f64>,
    /// Highest number of attempts of one event.
    pub attempts_max: Option<u64>,
    /// Age of the events that are not done.
    pub lag: Option<Distribution>,
    /// Time from creation to delivery, where the layout records the delivery.
    pub latency: Option<Distribution>,
}

/// A distribution of times, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Distribution {
    /// Average.
    pub avg: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// Maximum.
    pub max: f64,
}

#[cfg(feature = "_store")]
impl CountBy {
    /// A database's statement for the events of a layout. `hour` is the hour of `f.created_at` in microseconds.
    pub(crate) fn put_into(self, statement: &str, hour: &str, events: &str) -> String {
        let (event_type, producer, hour, order) = match self {
            Self::Type => {
                ("f.event_type", "NULL", "NULL", "6 DESC, 7 DESC, 5 DESC, subscription, event_type")
            }
            Self::Hour => ("NULL", "NULL", hour, "in_hour DESC, subscription"),
            Self::Producer => (
                "f.event_type",
                "f.producer",
                "NULL",
                "6 DESC, 7 DESC, 5 DESC, subscription, producer IS NULL, producer, event_type",
            ),
        };
        statement
            .replace("{type}", event_type)
            .replace("{producer}", producer)
            .replace("{hour}", hour)
            .replace("{order}", order)
            .replace("{events}", events)
    }
}

/// The SELECT of the events of the default layout. `state` is the database's SELECT of events with their state,
/// `no_time` its NULL for a time.
#[cfg(feature = "_store")]
pub(crate) fn log_events(state: &str, no_time: &str) -> String {
    format!(
        "SELECT subscription, type AS event_type, producer, time AS created_at, {no_time} AS delivered_at, state,
                is_due, attempts
         FROM ({state}) AS o"
    )
}

#[cfg(feature = "_store")]
impl EventCounts {
    /// From groups that were queried with a limit of `groups_max + 1`, to know whether there are more.
    pub(crate) fn of(mut groups: Vec<CountGroup>, groups_max: usize) -> Self {
        let more = groups.len() > groups_max;
        groups.truncate(groups_max);
        Self { groups, more }
    }
}

#[cfg(feature = "_store")]
impl CountGroup {
    /// One row of the counts: subscription, type, producer, hour; total, pending, failed, done, due; average and maximum of
    /// attempts; average, p50, p95 and maximum of the lag, and of the latency.
    pub(crate) fn of<E>(
        text: impl Fn(usize) -> Result<Option<String>, E>,
        number: impl Fn(usize) -> Result<Option<i64>, E>,
        fraction: impl Fn(usize) -> Result<Option<f64>, E>,
    ) -> Result<Self, E> {
        let count = |column| Ok(number(column)?.unwrap_or(0).unsigned_abs());
        let spread = |first: usize| {
            let Some(avg) = fraction(first)? else { return Ok(None) };
            let rest = |column| Ok(fraction(column)?.unwrap_or(avg));
            Ok(Some(Distribution {
                avg,
                p50: rest(first + 1)?,
                p95: rest(first + 2)?,
                max: rest(first + 3)?,
            }))
        };
        Ok(Self {
            subscription: text(0)?,
            event_type: text(1)?,
            producer: text(2)?,
            hour: number(3)?.map(Timestamp::from_micros),
            total: count(4)?,
            pending: count(5)?,
            failed: count(6)?,
            done: count(7)?,
            due: count(8)?,
            attempts_avg: fraction(9)?,
            attempts_max: number(10)?.map(i64::unsigned_abs),
            lag: spread(11)?,
            latency: spread(15)?,
        })
    }
}
