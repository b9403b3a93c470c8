//! Events counted by type, by hour or by producer, for people who ask where the backlog comes from.
//!
//! Every layout tells the same of each of its events, in a SELECT of its own: `subscription`, `event_type`, `producer`,
//! `created_at`, `delivered_at`, `state` (pending, failed or done), `is_due` and `attempts`. Every database counts them in
//! one statement, whatever the layout.

use crate::Timestamp;

/// What events are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CountBy {
    /// Their type.
    Type,
    /// The hour of their creation, in UTC.
    Hour,
    /// Who wrote them, and their type.
    Producer,
}

/// Events of an outbox that are still there, counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EventCounts {
    /// The largest backlog first; of hours, the newest.
    pub groups: Vec<CountGroup>,
    /// There are more: they were left out.
    pub more: bool,
}

/// Events of one subscription that have something in common.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountGroup {
    /// Whose; `None` if there is no subscription yet.
    pub subscription: Option<String>,
    /// Their type, unless they are counted by hour.
    pub event_type: Option<String>,
    /// Who wrote them, if they are counted by that and it is known.
    pub producer: Option<String>,
    /// When the hour of their creation began, if they are counted by that.
    pub hour: Option<Timestamp>,
    /// How many there are.
    pub total: u64,
    /// Of those, neither failed nor done.
    pub pending: u64,
    /// Failed: to be tried again, or given up.
    pub failed: u64,
    /// Delivered, or not wanted.
    pub done: u64,
    /// Not done, and nothing says that they must wait.
    pub due: u64,
    /// Average of their attempts, as far as they are counted.
    pub attempts_avg: Option<f64>,
    /// Most attempts of one.
    pub attempts_max: Option<u64>,
    /// How old those are that are not done.
    pub lag: Option<Distribution>,
    /// From creation to delivery, where the layout knows when that was.
    pub latency: Option<Distribution>,
}

/// How times are spread, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Distribution {
    /// The average.
    pub avg: f64,
    /// Half of them are below this.
    pub p50: f64,
    /// Nineteen of twenty are below this.
    pub p95: f64,
    /// The longest.
    pub max: f64,
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl CountBy {
    /// The statement of a database about the events of a layout. `hour` is the hour of `f.created_at` in microseconds.
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

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
impl EventCounts {
    /// One more group was asked for than is wanted, to know whether there are more.
    pub(crate) fn of(mut groups: Vec<CountGroup>, groups_max: usize) -> Self {
        let more = groups.len() > groups_max;
        groups.truncate(groups_max);
        Self { groups, more }
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
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
