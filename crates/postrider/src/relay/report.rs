//! What the brain reports, as log lines.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::brain::{CapacityLimit, FailureDetails, Report, TermEnd};
use super::builder::{UNIQUE_MARK, relay_of};
use crate::Position;
use crate::ledger::ParkedState;
use crate::store::LeaseOverview;

/// Lines about single events are limited per window of this length.
const WINDOW: Duration = Duration::from_secs(10);
/// Maximum number of lines per window about events that need an operator. Further ones are counted.
const GIVEN_UP_LINES_MAX: u64 = 20;
/// Maximum number of lines per window about events that failed for the first time.
const FAILING_LINES_MAX: u64 = 5;
/// Maximum number of characters of an event's text or of a reason in a line.
const TEXT_CHARS_MAX: usize = 300;

/// Logs the reports of one subscription's brain. What an operator should know is a warning or error. If thousands of
/// events fail together, the log gets a few lines and a count.
#[derive(Debug)]
pub(super) struct Reports {
    subscription: String,
    /// The name under which this relay holds leases.
    holder: String,
    given_up: LineLimit,
    failing: LineLimit,
    /// Destinations that are down, and since when. As many as the brain has at most.
    down: BTreeMap<Arc<str>, Duration>,
}

impl Reports {
    pub(super) fn new(subscription: &str, holder: &str) -> Self {
        Self {
            subscription: subscription.to_owned(),
            holder: holder.to_owned(),
            given_up: LineLimit::at_most(GIVEN_UP_LINES_MAX),
            failing: LineLimit::at_most(FAILING_LINES_MAX),
            down: BTreeMap::new(),
        }
    }

    /// Ends a window that is over, and logs how many lines it suppressed.
    pub(super) fn log_suppressed(&mut self, now: Duration) {
        let subscription = self.subscription.as_str();
        if let Some(events) = self.given_up.end_window(now) {
            tracing::warn!(
                subscription,
                events,
                "more events are dead, expired or unrouted; they are not listed"
            );
        }
        if let Some(events) = self.failing.end_window(now) {
            tracing::warn!(subscription, events, "more events failed and are retried; they are not listed");
        }
    }

    /// Logs a report.
    pub(super) fn log(&mut self, report: &Report, now: Duration) {
        if matches!(report, Report::TermEnded(_)) {
            // The next term knows no destination that is down.
            self.down.clear();
        }
        let subscription = self.subscription.as_str();
        match report {
            Report::Leading { epoch, clean, previous } => {
                let (epoch, reason) = (epoch.0, takeover_reason(previous.as_deref(), *clean, &self.holder));
                tracing::info!(subscription, epoch, clean, reason, "leading");
            }
            Report::StandingBy { holder } if relay_of(holder) == relay_of(&self.holder) => {
                tracing::warn!(
                    subscription,
                    holder,
                    "standby: this relay serves the same database through another outbox or shard; its events are \
                     delivered once, through that one; remove one of the two"
                );
            }
            Report::StandingBy { holder } if name(holder).is_some() && name(holder) == name(&self.holder) => {
                let own = self.holder.as_str();
                tracing::warn!(
                    subscription,
                    holder,
                    own,
                    "standby: another relay with the same name holds the lease, or held it when it crashed; \
                     give each relay a unique name, or no name"
                );
            }
            Report::StandingBy { holder } => {
                tracing::info!(subscription, holder, "standby: another relay holds the lease");
            }
            Report::TermEnded(TermEnd::Released) => tracing::info!(subscription, "lease released"),
            Report::TermEnded(TermEnd::ParkedChanged) => {
                tracing::info!(subscription, "reloading all progress: parked rows were changed");
            }
            Report::ParkedChanged => {
                let what = "another process changed parked rows; the new values are applied";
                tracing::warn!(subscription, "{what}");
            }
            Report::TermEnded(why) => tracing::warn!(subscription, %why, "no longer leading"),
            Report::Halted(reason) => {
                tracing::error!(subscription, reason, "halted until an operator acts");
            }
            Report::Paused(Some(reason)) => tracing::warn!(subscription, reason, "paused"),
            Report::Paused(None) => tracing::info!(subscription, "resumed"),
            Report::BreakerOpened { destination, error } => {
                self.down.insert(destination.clone(), now);
                let destination = display_destination(destination);
                tracing::warn!(
                    subscription,
                    %destination,
                    error,
                    "destination is down; failures do not count as attempts"
                );
            }
            Report::BreakerClosed { destination } => {
                let seconds = self.down.remove(destination).map(|since| now.saturating_sub(since).as_secs());
                let destination = display_destination(destination);
                tracing::info!(subscription, %destination, seconds, "destination is up again");
            }
            Report::Parked { position, state, attempts, details: Some(details) }
                if self.given_up.has_room() =>
            {
                let what = match state {
                    ParkedState::Expired => "event expired before it was delivered",
                    ParkedState::Unrouted => "event unrouted",
                    _ => "event dead",
                };
                warn(subscription, *position, Some(*attempts), details, what);
            }
            Report::Parked { position, state, attempts, .. } => {
                let state = state.as_str();
                tracing::debug!(subscription, position = position.get(), state, attempts, "parked");
            }
            Report::Failing { position, details } => {
                if self.failing.has_room() {
                    warn(subscription, *position, None, details, "event failed; it will be retried");
                }
            }
            Report::PossibleDuplicate(position) => {
                tracing::debug!(subscription, position = position.get(), "the event may be delivered twice");
            }
            Report::OrderBroken(position) => {
                let position = position.get();
                tracing::error!(
                    subscription,
                    position,
                    "the sink violated the prefix order that it declares"
                );
            }
            Report::CapacityLimit(Some(CapacityLimit::ParkedRows)) => tracing::warn!(
                subscription,
                "the maximum number of events is parked (parked_max); no new events are read until fewer are parked"
            ),
            Report::CapacityLimit(Some(CapacityLimit::DoneRanges)) => tracing::warn!(
                subscription,
                "the progress has very many gaps, because many events are not done; reading continues"
            ),
            Report::CapacityLimit(None) => {
                tracing::info!(
                    subscription,
                    "the number of parked events and of gaps is below its limit again"
                );
            }
        }
    }
}

/// Why a relay got the lease now.
fn takeover_reason(previous: Option<&LeaseOverview>, clean: bool, own: &str) -> String {
    match previous {
        Some(lease) if lease.holder == own => "it continues its own lease".to_owned(),
        Some(lease) => format!(
            "{} did not release its lease, which was valid until {}: its session ended, or the lease expired",
            lease.holder, lease.expires_at
        ),
        None if clean => "no relay held the lease, and the last one released it cleanly".to_owned(),
        None => "no relay held the lease; the last one did not settle everything, or an operator removed it"
            .to_owned(),
    }
}

/// The configured name of a relay, if it has one.
fn name(holder: &str) -> Option<&str> {
    holder.rsplit_once(UNIQUE_MARK).map(|(name, _)| name)
}

/// Logs a line about one event. Texts of the event are fields, which are quoted, so a line break in them cannot forge a
/// line.
fn warn(subscription: &str, position: Position, attempts: Option<u32>, details: &FailureDetails, what: &str) {
    let position = position.get();
    let id = details.event.as_ref().map(|event| event.id.to_string());
    let event_type = details.event.as_ref().map(|event| truncated(&event.event_type));
    let (id, event_type) = (id.as_deref(), event_type.as_deref());
    let key = details.key.as_deref().map(truncated);
    let key = key.as_deref();
    let destination = details.destination.as_deref().map(display_destination);
    let (destination, reason) = (destination.as_deref(), &*truncated(&details.reason));
    tracing::warn!(
        subscription,
        position,
        id,
        "type" = event_type,
        key,
        attempts,
        destination,
        reason,
        "{what}"
    );
}

/// The beginning of a text.
fn truncated(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// A destination for logs and status. Of a URL only scheme, host and port, because its path may contain a token.
pub(super) fn display_destination(destination: &str) -> Cow<'_, str> {
    let one = |name: &str| match name.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}")
        }
        None => name.to_owned(),
    };
    match destination.contains("://") {
        true => destination.split(" + ").map(one).collect::<Vec<_>>().join(" + ").into(),
        false => truncated(destination),
    }
}

/// Limits the lines of one kind per window.
#[derive(Debug)]
struct LineLimit {
    max: u64,
    written: u64,
    left_out: u64,
    window_ends: Duration,
}

impl LineLimit {
    fn at_most(max: u64) -> Self {
        Self { max, written: 0, left_out: 0, window_ends: Duration::ZERO }
    }

    /// Whether one more line may be written; it then counts as written.
    fn has_room(&mut self) -> bool {
        let room = self.written < self.max;
        if room {
            self.written += 1
        } else {
            self.left_out += 1
        }
        room
    }

    /// Starts a new window if this one is over. Returns how many lines were suppressed, if any.
    fn end_window(&mut self, now: Duration) -> Option<u64> {
        if now < self.window_ends {
            return None;
        }
        self.window_ends = now.saturating_add(WINDOW);
        self.written = 0;
        Some(std::mem::take(&mut self.left_out)).filter(|left_out| *left_out > 0)
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
