//! The reports of relays about themselves: their role, what only they know about the subscription, and which destinations
//! are down. Only for operators; no decision depends on them.

use std::time::Duration;

use super::Epoch;
use crate::Timestamp;

/// The number of destinations in one report.
pub(crate) const DOWN_MAX: usize = 8;

/// The length of an error in a report, in characters; the rest is cut off.
const ERROR_CHARS_MAX: usize = 500;

/// The length of a destination's name in a report, in characters; the rest is cut off.
#[cfg(feature = "_store")]
const DESTINATION_CHARS_MAX: usize = 300;

/// The number of reports of a subscription that an overview contains, the latest ones.
#[doc(hidden)]
pub const RELAYS_MAX: usize = 32;

/// How long an expired report is kept.
#[cfg(feature = "_store")]
pub(crate) const KEPT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A relay's report about one subscription; see [`Store::report`](super::Store::report).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayReport {
    /// The subscription.
    pub subscription: String,
    /// The relay's name.
    pub relay: String,
    /// Its role.
    pub role: RelayRole,
    /// How long the report is valid unless it is renewed.
    pub duration: Duration,
    /// The destinations that are down, as the leader observes them.
    pub down: Vec<DestinationDown>,
    /// What else only the relay knows.
    pub facts: RelayFacts,
}

/// What only a relay knows about a subscription that it serves, at the time of its report. Times are those of the relay's
/// clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RelayFacts {
    /// The version of the library.
    pub version: String,
    /// Identifies its settings for the subscription, so that others can be compared with them; empty: not known.
    pub settings: String,
    /// Since when it has its role.
    pub since: Timestamp,
    /// The epoch of its lease, if it leads.
    pub epoch: Option<Epoch>,
    /// Messages that were acknowledged during [`window`](Self::window).
    pub delivered: u64,
    /// The last seconds before the report.
    pub window: Duration,
    /// When the last message was acknowledged, or the last event settled.
    pub last_progress_at: Option<Timestamp>,
    /// Messages at the destination whose outcome is not known.
    pub in_flight: u64,
    /// Events in memory.
    pub read_ahead_events: u64,
    /// Their bytes, with overhead.
    pub read_ahead_bytes: u64,
    /// Positions that may still get an event; see `undecided_positions` of the metrics.
    pub undecided: u64,
    /// The most events per second that the sink gets, if that is limited.
    pub events_per_second_max: Option<u64>,
    /// The most bytes per second that the sink gets, if that is limited.
    pub bytes_per_second_max: Option<u64>,
    /// The last error of the database, or of the takeover at the destination.
    pub last_error: Option<RelayError>,
}

impl RelayFacts {
    /// Messages per second that were acknowledged before the report; `None` if the relay has not led long enough.
    pub fn rate(&self) -> Option<f64> {
        // A delivery rate needs no more precision than a float has.
        (!self.window.is_zero()).then(|| self.delivered as f64 / self.window.as_secs_f64())
    }
}

/// An error of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayError {
    /// Its code, such as `PR-0301`.
    pub code: String,
    /// One sentence, cut off at 500 characters.
    pub message: String,
    /// When it began.
    pub since: Timestamp,
    /// When it ended; `None` while it lasts.
    pub until: Option<Timestamp>,
}

impl RelayError {
    /// Cuts the message off at the limit.
    pub(crate) fn new(code: &str, message: &str, since: Timestamp, until: Option<Timestamp>) -> Self {
        Self { code: code.to_owned(), message: limited(message, ERROR_CHARS_MAX), since, until }
    }
}

/// The role of a relay for a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayRole {
    /// It holds the lease.
    Leading,
    /// It waits for the lease.
    StandingBy,
    /// It has stopped: its report is removed.
    Gone,
}

/// A destination that is considered down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationDown {
    /// Its name.
    pub destination: String,
    /// Since when, on the relay's clock.
    pub since: Timestamp,
    /// The last error of the destination or of the connection to it.
    pub error: String,
    /// The time of the next probe.
    pub next_probe_at: Timestamp,
}

/// A relay of a subscription, by its last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayOverview {
    /// Its name.
    pub relay: String,
    /// Whether it holds the lease; else it is on standby.
    pub leading: bool,
    /// The time of the report, on the database's clock.
    pub seen_at: Timestamp,
    /// Until when the report is valid.
    pub expires_at: Timestamp,
    /// Destinations that are down.
    pub down: Vec<DestinationDown>,
    /// What else only the relay knows. Also of a relay that died: as it last reported.
    pub facts: RelayFacts,
}

impl RelayOverview {
    /// Whether the report is still valid: if not, the relay has died, or cannot reach the database.
    pub fn is_current(&self, now: Timestamp) -> bool {
        self.expires_at > now
    }
}

impl DestinationDown {
    /// Cuts the error off at the limit.
    pub(crate) fn new(destination: &str, since: Timestamp, error: &str, next_probe_at: Timestamp) -> Self {
        let error = limited(error, ERROR_CHARS_MAX);
        Self { destination: destination.to_owned(), since, error, next_probe_at }
    }
}

/// The beginning of a text, without characters that a database cannot store.
fn limited(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).filter(|c| *c != '\0').collect()
}

/// One destination in the column `down`. Times are microseconds since 1970.
#[cfg(feature = "_store")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Column {
    destination: String,
    since: i64,
    error: String,
    next_probe_at: i64,
}

/// Destinations as the text of the column `down`; `None` if there are none.
#[cfg(feature = "_store")]
pub(crate) fn to_column(down: &[DestinationDown]) -> Option<String> {
    let columns = |of: &DestinationDown| Column {
        destination: limited(&of.destination, DESTINATION_CHARS_MAX),
        since: of.since.as_micros(),
        error: of.error.clone(),
        next_probe_at: of.next_probe_at.as_micros(),
    };
    let columns: Vec<Column> = down.iter().take(DOWN_MAX).map(columns).collect();
    (!columns.is_empty()).then(|| serde_json::to_string(&columns).ok()).flatten()
}

/// The destinations in such a text; none if it cannot be parsed.
#[cfg(feature = "_store")]
pub(crate) fn from_column(text: Option<&str>) -> Vec<DestinationDown> {
    let columns: Vec<Column> = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let of = |column: Column| DestinationDown {
        destination: column.destination,
        since: Timestamp::from_micros(column.since),
        error: column.error,
        next_probe_at: Timestamp::from_micros(column.next_probe_at),
    };
    columns.into_iter().map(of).collect()
}

/// The column `facts`. Every field may be missing: another version of the program may have written it.
#[cfg(feature = "_store")]
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
struct FactsColumn {
    version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    settings: String,
    since: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<i64>,
    delivered: u64,
    window_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_progress_at: Option<i64>,
    in_flight: u64,
    read_ahead_events: u64,
    read_ahead_bytes: u64,
    undecided: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    events_per_second_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<ErrorColumn>,
}

#[cfg(feature = "_store")]
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
struct ErrorColumn {
    code: String,
    message: String,
    since: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
}

/// Facts as the text of the column `facts`. At most about 3 KB: the only texts are a version, a code and an error.
#[cfg(feature = "_store")]
pub(crate) fn facts_to_column(facts: &RelayFacts) -> Option<String> {
    let error = |of: &RelayError| ErrorColumn {
        code: of.code.clone(),
        message: of.message.clone(),
        since: of.since.as_micros(),
        until: of.until.map(Timestamp::as_micros),
    };
    let column = FactsColumn {
        version: limited(&facts.version, 100),
        settings: limited(&facts.settings, 100),
        since: facts.since.as_micros(),
        epoch: facts.epoch.map(|epoch| epoch.0),
        delivered: facts.delivered,
        window_ms: u64::try_from(facts.window.as_millis()).unwrap_or(u64::MAX),
        last_progress_at: facts.last_progress_at.map(Timestamp::as_micros),
        in_flight: facts.in_flight,
        read_ahead_events: facts.read_ahead_events,
        read_ahead_bytes: facts.read_ahead_bytes,
        undecided: facts.undecided,
        events_per_second_max: facts.events_per_second_max,
        bytes_per_second_max: facts.bytes_per_second_max,
        last_error: facts.last_error.as_ref().map(error),
    };
    serde_json::to_string(&column).ok()
}

/// The facts in such a text; empty ones if it cannot be parsed.
#[cfg(feature = "_store")]
pub(crate) fn facts_from_column(text: Option<&str>) -> RelayFacts {
    let column: FactsColumn = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let error = |of: ErrorColumn| {
        let (since, until) = (Timestamp::from_micros(of.since), of.until.map(Timestamp::from_micros));
        RelayError::new(&of.code, &of.message, since, until)
    };
    RelayFacts {
        version: column.version,
        settings: column.settings,
        since: Timestamp::from_micros(column.since),
        epoch: column.epoch.map(Epoch),
        delivered: column.delivered,
        window: Duration::from_millis(column.window_ms),
        last_progress_at: column.last_progress_at.map(Timestamp::from_micros),
        in_flight: column.in_flight,
        read_ahead_events: column.read_ahead_events,
        read_ahead_bytes: column.read_ahead_bytes,
        undecided: column.undecided,
        events_per_second_max: column.events_per_second_max,
        bytes_per_second_max: column.bytes_per_second_max,
        last_error: column.last_error.map(error),
    }
}

#[cfg(all(test, feature = "_store"))]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn facts_come_back_from_their_column() {
        let facts = RelayFacts {
            version: "1.2.3".to_owned(),
            settings: "0a-0b-0c".to_owned(),
            since: at(5),
            epoch: Some(Epoch(7)),
            delivered: 500,
            window: Duration::from_millis(2_500),
            last_progress_at: Some(at(6)),
            in_flight: 1,
            read_ahead_events: 2,
            read_ahead_bytes: 3,
            undecided: 4,
            events_per_second_max: Some(100),
            bytes_per_second_max: None,
            last_error: Some(RelayError::new("PR-0301", "no \"answer\"", at(1), Some(at(2)))),
        };
        let column = facts_to_column(&facts);
        assert_eq!(facts_from_column(column.as_deref()), facts);
        assert_eq!(facts.rate(), Some(200.0));
    }

    #[test]
    fn facts_of_another_version_are_read_as_far_as_they_are_known() {
        let column = r#"{"version":"9","in_flight":3,"what_a_later_version_adds":{"a":[1]}}"#;
        let facts = facts_from_column(Some(column));
        assert_eq!((facts.version.as_str(), facts.in_flight, facts.rate()), ("9", 3, None));
        for damaged in [Some("not json"), Some("[]"), Some(r#"{"in_flight":-1}"#), None] {
            assert_eq!(facts_from_column(damaged), RelayFacts::default(), "{damaged:?}");
        }
    }

    #[test]
    fn a_report_has_a_limited_length() {
        let long = "\u{1F6AB}\0".repeat(100_000);
        let down = DestinationDown::new(&long, at(1), &long, at(2));
        let column = to_column(&vec![down; 1_000]).unwrap();
        assert!(column.len() < DOWN_MAX * 4_000, "{}", column.len());
        let facts = RelayFacts {
            version: long.clone(),
            last_error: Some(RelayError::new("PR-0301", &long, at(1), None)),
            ..RelayFacts::default()
        };
        assert!(facts_to_column(&facts).unwrap().len() < 4_000);
    }
}
