//! The reports of relays about themselves: which ones are on standby, and which destinations are down. Only for
//! operators; no decision depends on them.

use std::time::Duration;

use crate::Timestamp;

/// The number of destinations in one report.
pub(crate) const DOWN_MAX: usize = 8;

/// The length of a destination's error in a report, in characters; the rest is cut off.
const ERROR_CHARS_MAX: usize = 500;

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
}

impl DestinationDown {
    /// Cuts the error off at the limit.
    pub(crate) fn new(destination: &str, since: Timestamp, error: &str, next_probe_at: Timestamp) -> Self {
        let error = error.chars().take(ERROR_CHARS_MAX).filter(|c| *c != '\0').collect();
        Self { destination: destination.to_owned(), since, error, next_probe_at }
    }
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
        destination: of.destination.clone(),
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
