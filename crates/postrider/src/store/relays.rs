//! What relays say of themselves beside their leases: who stands by, and which destinations are down. For people who
//! ask how an outbox is doing; nothing is decided by it.

use std::time::Duration;

use crate::Timestamp;

/// Destinations that one report names at most.
pub(crate) const DOWN_MAX: usize = 8;

/// Longest error of a destination that is kept, in characters.
const ERROR_CHARS_MAX: usize = 500;

/// How long the report of a relay is kept after it ran out.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(crate) const KEPT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// What a relay says of itself about one subscription; see [`Store::report`](super::Store::report).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayReport {
    /// The subscription.
    pub subscription: String,
    /// The relay's name.
    pub relay: String,
    /// What it does.
    pub role: RelayRole,
    /// How long the report holds unless it is renewed.
    pub duration: Duration,
    /// Destinations that are down, as the leader sees them.
    pub down: Vec<DestinationDown>,
}

/// What a relay does for a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayRole {
    /// It holds the lease.
    Leading,
    /// It waits for the lease.
    StandingBy,
    /// It has stopped: its report is removed.
    Gone,
}

/// A destination that is taken for down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationDown {
    /// Its name.
    pub destination: String,
    /// Since when, by the relay's clock.
    pub since: Timestamp,
    /// What it, or the way to it, said last.
    pub error: String,
    /// When it is tried next.
    pub next_probe_at: Timestamp,
}

/// A relay that serves a subscription or stands by, as it said itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayOverview {
    /// Its name.
    pub relay: String,
    /// Whether it holds the lease; else it stands by.
    pub leading: bool,
    /// When it said so, by the database's clock.
    pub seen_at: Timestamp,
    /// Until when that holds.
    pub expires_at: Timestamp,
    /// Destinations that are down.
    pub down: Vec<DestinationDown>,
}

impl DestinationDown {
    /// With no more of the error than is kept.
    pub(crate) fn new(destination: &str, since: Timestamp, error: &str, next_probe_at: Timestamp) -> Self {
        let error = error.chars().take(ERROR_CHARS_MAX).filter(|c| *c != '\0').collect();
        Self { destination: destination.to_owned(), since, error, next_probe_at }
    }
}

/// One destination in the column `down`. Times are microseconds since 1970.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
#[derive(serde::Serialize, serde::Deserialize)]
struct Column {
    destination: String,
    since: i64,
    error: String,
    next_probe_at: i64,
}

/// The text of a column.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
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

/// What such a text says; nothing if it is not ours to read.
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
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
