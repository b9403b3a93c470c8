//! Which parked events are meant, and how they are listed.

use serde::Serialize;
#[cfg(any(feature = "_server", test))]
use uuid::Uuid;

use crate::Timestamp;
use crate::ledger::Redelivery;
use crate::store::ParkedState;

/// Which parked events of a subscription. All given conditions must match; without any, all of them do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParkedFilter {
    /// In one of these states; empty: in any.
    pub states: Vec<ParkedState>,
    /// These events, by their id, or by their position or row id; empty: any.
    pub events: Vec<String>,
    /// With this ordering key.
    pub key: Option<String>,
    /// Of this type.
    pub event_type: Option<String>,
    /// Whose last error contains this text, ignoring case.
    pub error: Option<String>,
    /// Whose state last changed at this time or later.
    pub since: Option<Timestamp>,
    /// Whose state last changed at this time or earlier.
    pub until: Option<Timestamp>,
    /// That an operator asked to deliver again, for this reason.
    pub redelivery: Option<Redelivery>,
}

crate::setters! { ParkedFilter:
    states: Vec<ParkedState>,
    events: Vec<String>,
    key: Option<String>,
    event_type: Option<String>,
    error: Option<String>,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    redelivery: Option<Redelivery>,
}

/// Maximum number of bytes of a filter in the audit trail.
const SELECTION_BYTES_MAX: usize = 2_000;

impl ParkedFilter {
    /// The filter as text, for the audit trail and for people.
    pub fn description(&self) -> String {
        let mut parts = Vec::new();
        if !self.states.is_empty() {
            let states: Vec<&str> = self.states.iter().map(|state| state.as_str()).collect();
            parts.push(format!("state {}", states.join("|")));
        }
        if !self.events.is_empty() {
            parts.push(format!("events {}", self.events.join(" ")));
        }
        let texts = [("key", &self.key), ("type", &self.event_type), ("error", &self.error)];
        parts.extend(texts.iter().filter_map(|(name, text)| Some(format!("{name} {:?}", text.as_ref()?))));
        let times = [("since", self.since), ("until", self.until)];
        parts.extend(times.iter().filter_map(|(name, time)| Some(format!("{name} {}", time.as_ref()?))));
        parts.extend(self.redelivery.map(|redelivery| format!("redelivery {}", redelivery.as_str())));
        let text = if parts.is_empty() { "all".to_owned() } else { parts.join(", ") };
        cut(text, SELECTION_BYTES_MAX)
    }

    /// Whether an item matches.
    pub fn matches(&self, item: &ParkedItem) -> bool {
        self.matches_row(item) && self.matches_event(item)
    }

    /// Whether it matches the conditions that need no event.
    pub(crate) fn matches_row(&self, item: &ParkedItem) -> bool {
        let Self { states, key, error, since, until, redelivery, .. } = self;
        let contains = |wanted: &String| {
            let error = item.last_error.as_ref().map(|error| error.to_lowercase());
            error.is_some_and(|error| error.contains(&wanted.to_lowercase()))
        };
        (states.is_empty() || states.iter().any(|state| state.as_str() == item.state))
            && key.as_ref().is_none_or(|key| item.key.as_ref() == Some(key))
            && error.as_ref().is_none_or(contains)
            && since.is_none_or(|since| item.updated_at.is_some_and(|at| at >= since))
            && until.is_none_or(|until| item.updated_at.is_some_and(|at| at <= until))
            && redelivery.is_none_or(|wanted| item.redelivery.as_deref() == Some(wanted.as_str()))
    }

    /// Whether it matches the conditions that need its event.
    pub(crate) fn matches_event(&self, item: &ParkedItem) -> bool {
        let named = |wanted: &String| {
            *wanted == item.row || item.id.as_ref().is_some_and(|id| id.eq_ignore_ascii_case(wanted))
        };
        (self.events.is_empty() || self.events.iter().any(named))
            && self.event_type.as_ref().is_none_or(|wanted| item.event_type.as_ref() == Some(wanted))
    }

    /// The ids of events in `events`.
    #[cfg(any(feature = "_server", test))]
    pub(crate) fn event_ids(&self) -> Vec<Uuid> {
        self.events.iter().filter_map(|text| Uuid::parse_str(text).ok()).collect()
    }

    /// The positions in `events`.
    #[cfg(any(feature = "_server", test))]
    pub(crate) fn positions(&self) -> Vec<i64> {
        self.events.iter().filter_map(|text| text.parse().ok()).collect()
    }
}

/// A text of at most this many bytes, cut between characters.
pub(super) fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        let end = (0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

/// A page of parked events of one subscription, in their order.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ParkedQuery {
    /// The subscription.
    pub subscription: String,
    /// Which of its parked events.
    pub filter: ParkedFilter,
    /// Only events after this one: [`ParkedItem::row`] of the last one of the previous page.
    pub after: Option<String>,
    /// The maximum number of events.
    pub rows_max: usize,
    /// Search at most this many parked events. For filters that have to read every one of them.
    pub search_max: Option<usize>,
}

impl ParkedQuery {
    /// The first page.
    pub fn new(subscription: impl Into<String>, filter: ParkedFilter, rows_max: usize) -> Self {
        Self { subscription: subscription.into(), filter, after: None, rows_max, search_max: None }
    }

    /// Search at most this many parked events.
    #[must_use]
    pub fn search_max(mut self, events: Option<usize>) -> Self {
        self.search_max = events;
        self
    }

    /// The page after this event.
    #[must_use]
    pub fn after(mut self, row: Option<String>) -> Self {
        self.after = row;
        self
    }
}

/// One parked event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ParkedItem {
    /// The subscription.
    pub subscription: String,
    /// Its position, or the id of its row.
    pub row: String,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// Its type; `None` if its row no longer exists.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// Its ordering key.
    pub key: Option<String>,
    /// Its destination.
    pub destination: Option<String>,
    /// Its state.
    pub state: String,
    /// Attempts that counted.
    pub attempts: u32,
    /// When it is tried again.
    pub next_attempt_at: Option<Timestamp>,
    /// The last error.
    pub last_error: Option<String>,
    /// When it was parked.
    pub parked_at: Option<Timestamp>,
    /// When its state last changed.
    pub updated_at: Option<Timestamp>,
    /// `retry` or `replay` if an operator asked to deliver it again.
    pub redelivery: Option<String>,
}

impl ParkedItem {
    /// A parked row as an item, for stores of tests.
    #[doc(hidden)]
    pub fn new(
        subscription: &str,
        row: &crate::ledger::ParkedRow,
        id: Option<String>,
        event_type: Option<String>,
        at: Timestamp,
    ) -> Self {
        Self {
            subscription: subscription.to_owned(),
            row: row.position.to_string(),
            id,
            event_type,
            key: row.key.clone(),
            destination: row.destination.clone(),
            state: row.state.as_str().to_owned(),
            attempts: row.attempts,
            next_attempt_at: row.next_attempt_at,
            last_error: row.last_error.clone(),
            parked_at: Some(at),
            updated_at: Some(at),
            redelivery: row.redelivery.map(|redelivery| redelivery.as_str().to_owned()),
        }
    }
}

/// How many events match, counted up to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct ParkedCount {
    /// How many.
    pub events: u64,
    /// There are more: counting stopped.
    pub at_least: bool,
}

impl ParkedCount {
    /// The result of a count that stops at `max`.
    pub fn up_to(events: u64, max: u64) -> Self {
        Self { events, at_least: events >= max }
    }
}

impl std::fmt::Display for ParkedCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.at_least { write!(f, "at least {}", self.events) } else { write!(f, "{}", self.events) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_describes_itself_and_is_cut_between_characters() {
        let filter = ParkedFilter::default()
            .states(vec![ParkedState::Dead, ParkedState::Expired])
            .key(Some("Order/42".to_owned()));
        assert_eq!(filter.description(), "state dead|expired, key \"Order/42\"");
        assert_eq!(ParkedFilter::default().description(), "all");
        let long = ParkedFilter::default().error(Some("ä".repeat(2_000)));
        assert!(long.description().len() <= SELECTION_BYTES_MAX + 3);
    }

    #[test]
    fn events_are_named_by_id_or_by_position() {
        let id = Uuid::from_u128(7);
        let filter = ParkedFilter::default().events(vec![id.to_string(), "42".to_owned(), "x".to_owned()]);
        assert_eq!((filter.event_ids(), filter.positions()), (vec![id], vec![42]));
    }
}
