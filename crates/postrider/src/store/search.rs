//! Listing events of the default layout: the part that is the same on every database.
//!
//! The table has one index, on the position. Times roughly increase with positions, so a time is found by a binary
//! search over the positions.

use serde_json::Value;

use super::log_tx::LogTx;
use super::{EventFilter, ListedEvent};
use crate::{Code, Error, Position, Result, Timestamp};

/// The number of events per query.
#[cfg(feature = "_server")]
pub(super) const PAGE_EVENTS: usize = 1_000;

/// How far the time of an event, which its writer sets, may differ from those of its neighbours. An event with a larger
/// difference is not found by time.
const TIME_SKEW_MAX_MICROS: i64 = 60 * 60 * 1_000_000;

/// Refuses a filter by state: an event of the default layout has none, because each subscription has its own progress.
pub(super) fn refuse_state(filter: &EventFilter) -> Result<()> {
    match &filter.state {
        None => Ok(()),
        Some(_) => Err(Error::new(Code::LayoutDiffers, "events of the default layout have no state")
            .with_hint("remove --state; `postrider status` shows the progress of each subscription")),
    }
}

/// The number of events to query next: those still missing, unless some may not match the filter.
#[cfg(feature = "_server")]
pub(super) fn page(filter: &EventFilter, found: usize) -> usize {
    match filter.contains {
        Some(_) => PAGE_EVENTS,
        None => filter.events_max.saturating_sub(found).min(PAGE_EVENTS),
    }
}

/// A binary search for the first position whose event is not older than a time. Takes at most 64 probes.
#[derive(Debug)]
pub(super) struct TimeSearch {
    lower: i64,
    upper: i64,
    time: Timestamp,
}

impl TimeSearch {
    /// Searches the first position that can match `since`, from `first` up to and without `end`.
    pub(super) fn since(filter: &EventFilter, (first, end): (i64, i64)) -> Self {
        match filter.since {
            Some(since) => Self { lower: first, upper: end, time: moved(since, -TIME_SKEW_MAX_MICROS) },
            None => Self { lower: first, upper: first, time: Timestamp::from_micros(0) },
        }
    }

    /// Searches the first position after all that can match `until`.
    pub(super) fn until(filter: &EventFilter, (first, end): (i64, i64)) -> Self {
        match filter.until {
            Some(until) => Self { lower: first, upper: end, time: moved(until, TIME_SKEW_MAX_MICROS) },
            None => Self { lower: end, upper: end, time: Timestamp::from_micros(0) },
        }
    }

    /// The position to probe next; `None` if the search is complete.
    pub(super) fn next_probe(&self) -> Option<i64> {
        (self.lower < self.upper).then(|| self.lower + (self.upper - self.lower) / 2)
    }

    /// Applies a probe: the first event at or after the probed position, with its time, if there is one.
    pub(super) fn narrow(&mut self, probed: i64, event: Option<(i64, Timestamp)>) {
        match event {
            Some((position, time)) if time < self.time => self.lower = position.saturating_add(1),
            _ => self.upper = probed,
        }
    }

    pub(super) fn found(&self) -> i64 {
        self.lower
    }
}

/// The first position whose event is not older than a time, by a binary search: at most 64 probes.
pub(super) async fn first_at<T: LogTx>(
    tx: &mut T,
    time: Timestamp,
    first: Position,
    last: Position,
) -> Result<Position> {
    let (mut lower, mut upper) = (first.get(), last.get());
    while lower < upper {
        let middle = lower + (upper - lower) / 2;
        let probe = tx.times_within(Position::new(middle).previous(), last, 1).await?;
        match probe.first() {
            Some((position, at)) if *at < time => lower = position.get().saturating_add(1),
            _ => upper = middle,
        }
    }
    Ok(Position::new(lower))
}

/// The part of the positions above `after` and up to `last` that can have events from within two times.
pub(super) async fn time_window<T: LogTx>(
    tx: &mut T,
    after: Position,
    last: Position,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
) -> Result<(Position, Position)> {
    let (first, mut window) = (after.next(), (after, last));
    if first > last {
        return Ok(window);
    }
    if let Some(since) = since {
        window.0 = first_at(tx, moved(since, -TIME_SKEW_MAX_MICROS), first, last).await?.previous();
    }
    if let Some(until) = until {
        window.1 = first_at(tx, moved(until, TIME_SKEW_MAX_MICROS), first, last).await?;
    }
    Ok(window)
}

fn moved(time: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(time.as_micros().saturating_add(micros))
}

/// A payload for operators: as text if it is UTF-8, else in hexadecimal.
#[cfg(any(feature = "sqlite", feature = "mysql"))]
pub(super) fn text(payload: Vec<u8>) -> String {
    String::from_utf8(payload)
        .unwrap_or_else(|error| error.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Whether the payload is JSON that contains this value.
pub(super) fn passes(event: &ListedEvent, part: Option<&Value>) -> bool {
    part.is_none_or(|part| {
        let payload = event.payload.as_deref().unwrap_or_default();
        serde_json::from_str::<Value>(payload).is_ok_and(|payload| contains(&payload, part))
    })
}

/// Whether a JSON value contains another, as PostgreSQL's `@>` defines it: every member of an object, every element of
/// an array in any order. An array also contains a scalar that is one of its elements.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Array(whole), part) if !part.is_object() && !part.is_array() => {
            whole.iter().any(|element| contains_below(element, part))
        }
        _ => contains_below(whole, part),
    }
}

/// The same below the top level, where an array does not contain a scalar.
fn contains_below(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(name, part)| whole.get(name).is_some_and(|whole| contains_below(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            part.iter().all(|part| whole.iter().any(|whole| contains_below(whole, part)))
        }
        // 1 equals 1.0. Integers are compared as integers, because not all of them fit into a float.
        (Value::Number(whole), Value::Number(part)) if whole.is_f64() || part.is_f64() => {
            whole.as_f64() == part.as_f64()
        }
        _ => whole == part,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_contains_its_members_and_an_array_its_elements() {
        let order = json!({"id": 7, "lines": [{"sku": "a", "n": 2}, {"sku": "b"}], "to": {"city": "Bern"}});
        for part in [
            json!({}),
            json!({"id": 7}),
            json!({"id": 7.0}),
            json!({"to": {"city": "Bern"}}),
            json!({"lines": [{"sku": "b"}]}),
            json!({"lines": [{"sku": "b"}, {"n": 2}]}),
        ] {
            assert!(contains(&order, &part), "{part}");
        }
        for part in [
            json!({"id": 8}),
            json!({"city": "Bern"}),
            json!({"lines": [{"sku": "c"}]}),
            json!({"lines": {"sku": "b"}}),
            json!([7]),
        ] {
            assert!(!contains(&order, &part), "{part}");
        }
        assert!(contains(&json!([1, "a"]), &json!("a")) && !contains(&json!([[1]]), &json!(1)));
        assert!(!contains(&json!({"a": [1, 2]}), &json!({"a": 1})));
    }

    #[test]
    fn the_search_finds_the_first_position_in_time_despite_missing_positions() {
        let second = |n: i64| Timestamp::from_micros(n * 1_000_000);
        // Every third position, one hour each.
        let events: Vec<(i64, Timestamp)> = (1..=100).map(|n| (n * 3, second(n * 3_600))).collect();
        for hour in 0..110 {
            let filter = EventFilter { since: Some(second(hour * 3_600)), ..EventFilter::default() };
            let mut search = TimeSearch::since(&filter, (3, 301));
            while let Some(at) = search.next_probe() {
                search.narrow(at, events.iter().find(|(position, _)| *position >= at).copied());
            }
            let wanted = events.iter().find(|(_, time)| time.as_micros() >= (hour - 1) * 3_600_000_000);
            let found = events.iter().find(|(position, _)| *position >= search.found());
            assert_eq!(found, wanted, "{hour}");
        }
    }
}
