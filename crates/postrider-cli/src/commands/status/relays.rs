//! The relays of a subscription in the output of `status`, as they last reported themselves.

use std::time::Duration;

use postrider::Timestamp;
use postrider::store::{DestinationDown, RelayOverview, SubscriptionOverview};
use serde::Serialize;

use crate::output::age;

/// One relay.
#[derive(Serialize)]
pub(super) struct Relay {
    relay: String,
    role: Role,
    version: String,
    /// Identifies its settings for the subscription: relays with the same settings have the same. Empty: not known.
    settings: String,
    /// Since when it has its role; unknown for a relay of an earlier version.
    since: Option<String>,
    since_seconds: Option<f64>,
    seen_at: String,
    seen_seconds: f64,
    epoch: Option<i64>,
    /// Acknowledged messages per second.
    rate: Option<f64>,
    in_flight: u64,
    read_ahead_events: u64,
    read_ahead_bytes: u64,
    last_progress_at: Option<String>,
    last_progress_seconds: Option<f64>,
    /// The limits of its sink, if there are any.
    events_per_second_max: Option<u64>,
    bytes_per_second_max: Option<u64>,
    pub(super) destinations_down: Vec<Down>,
    last_error: Option<LastError>,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Role {
    /// It holds the lease.
    Leading,
    /// It waits for the lease.
    Standby,
    /// Its report has expired: it has died, or cannot reach the database.
    Lost,
}

#[derive(Serialize)]
struct LastError {
    code: String,
    message: String,
    since: String,
    since_seconds: f64,
    /// `None` while it lasts.
    until: Option<String>,
}

/// A destination that is down.
#[derive(Serialize, Clone)]
pub(super) struct Down {
    destination: String,
    since: String,
    since_seconds: f64,
    pub(super) error: String,
    next_probe_at: String,
    next_probe_seconds: f64,
}

impl Relay {
    /// The relays of a subscription, the leader first.
    pub(super) fn all(subscription: &SubscriptionOverview, now: Timestamp) -> Vec<Self> {
        let leader = subscription.leader(now).map(|lease| lease.holder.as_str());
        let mut relays: Vec<Self> = subscription.relays.iter().map(|of| Self::new(of, leader, now)).collect();
        relays.sort_by_key(|of| of.role as u8);
        relays
    }

    fn new(of: &RelayOverview, leader: Option<&str>, now: Timestamp) -> Self {
        let role = match leader == Some(of.relay.as_str()) {
            true => Role::Leading,
            false if of.is_current(now) => Role::Standby,
            false => Role::Lost,
        };
        let facts = &of.facts;
        // A report that a program of an earlier version wrote has no facts.
        let since = (!facts.version.is_empty()).then_some(facts.since);
        Self {
            relay: of.relay.clone(),
            role,
            version: facts.version.clone(),
            settings: facts.settings.clone(),
            since: since.map(|since| since.to_string()),
            since_seconds: since.map(|since| since.until(now).as_secs_f64()),
            seen_at: of.seen_at.to_string(),
            seen_seconds: of.seen_at.until(now).as_secs_f64(),
            epoch: facts.epoch.map(|epoch| epoch.0),
            rate: facts.rate(),
            in_flight: facts.in_flight,
            read_ahead_events: facts.read_ahead_events,
            read_ahead_bytes: facts.read_ahead_bytes,
            last_progress_at: facts.last_progress_at.map(|time| time.to_string()),
            last_progress_seconds: facts.last_progress_at.map(|time| time.until(now).as_secs_f64()),
            events_per_second_max: facts.events_per_second_max,
            bytes_per_second_max: facts.bytes_per_second_max,
            destinations_down: of.down.iter().map(|down| Down::new(down, now)).collect(),
            last_error: facts.last_error.as_ref().map(|error| LastError {
                code: error.code.clone(),
                message: error.message.clone(),
                since: error.since.to_string(),
                since_seconds: error.since.until(now).as_secs_f64(),
                until: error.until.map(|until| until.to_string()),
            }),
        }
    }

    pub(super) fn is_leading(&self) -> bool {
        self.role == Role::Leading
    }

    /// Its name, if it is on standby.
    pub(super) fn standby(&self) -> Option<&str> {
        (self.role == Role::Standby).then_some(self.relay.as_str())
    }

    pub(super) fn rate(&self) -> Option<f64> {
        self.rate
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The limits of its sink in words, if there are any.
    pub(super) fn limits(&self) -> Option<String> {
        let events = self.events_per_second_max.map(|max| format!("{max} events/s"));
        let bytes = self.bytes_per_second_max.map(|max| format!("{max} bytes/s"));
        let limits: Vec<String> = [events, bytes].into_iter().flatten().collect();
        (!limits.is_empty()).then(|| format!("limited to {}", limits.join(" and ")))
    }

    /// The cells of the table of relays, after the subscription.
    pub(super) fn cells(&self) -> [String; 7] {
        let shown = |seconds| age(Duration::from_secs_f64(seconds));
        let role = match self.role {
            Role::Leading => "leading",
            Role::Standby => "standby",
            Role::Lost => "LOST",
        };
        let error = self.last_error.as_ref().map(|error| {
            let state = if error.until.is_some() { "ended" } else { "lasts" };
            format!("{} {}; began {} ago, {state}", error.code, error.message, shown(error.since_seconds))
        });
        [
            self.relay.clone(),
            self.since_seconds
                .map_or_else(|| role.to_owned(), |since| format!("{role} for {}", shown(since))),
            self.epoch.map_or_else(String::new, |epoch| epoch.to_string()),
            self.version.clone(),
            self.settings.clone(),
            format!("{} ago", shown(self.seen_seconds)),
            error.unwrap_or_default(),
        ]
    }
}

impl Down {
    fn new(of: &DestinationDown, now: Timestamp) -> Self {
        Self {
            destination: of.destination.clone(),
            since: of.since.to_string(),
            since_seconds: of.since.until(now).as_secs_f64(),
            error: of.error.clone(),
            next_probe_at: of.next_probe_at.to_string(),
            next_probe_seconds: now.until(of.next_probe_at).as_secs_f64(),
        }
    }

    pub(super) fn words(&self) -> String {
        let seconds = |seconds| age(Duration::from_secs_f64(seconds));
        // The relay's report may be older than its last probe: the result of that probe is then not known yet.
        let next = match self.next_probe_seconds {
            0.0 => "retried since".to_owned(),
            later => format!("next retry in {}", seconds(later)),
        };
        format!("{} is DOWN since {} ({}), {next}", self.destination, self.since, seconds(self.since_seconds))
    }
}
