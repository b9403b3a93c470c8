//! Checks of the subscriptions of an outbox, in any database.

use std::time::Duration;

use postrider::Timestamp;
use postrider::ledger::ParkedState;
use postrider::store::{Backlog, Overview, RelayOverview, SubscriptionOverview};

use super::report::Subject;
use super::{CLOCK_SKEW_MAX, Check};
use crate::config::Settings;
use crate::config::digest::{differences, digest};
use crate::config::settings::SubscriptionSettings;
use crate::output::{age, count};

/// The version that a relay of this program reports.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Percentage of `parked_max` from which on the number of parked events is a warning.
const PARKED_WARN_PERCENT: u64 = 80;
/// A subscription is far behind if the next one is at least this many positions ahead.
const FAR_BEHIND_POSITIONS: i64 = 100_000;

/// Checks all subscriptions of the outbox, in the database and in the configuration.
pub(super) fn check(outbox: &str, overview: &Overview, settings: &Settings, subject: &mut Subject<'_>) {
    clock(overview, subject);
    let configured = |name: &str| settings.subscriptions.get(name).filter(|of| of.reads(outbox));
    for subscription in &overview.subscriptions {
        let of = configured(&subscription.name);
        let mut subject = subject.part(&subscription.name);
        check_subscription(subscription, overview.now, of, &mut subject);
        let digest = of.map_or_else(String::new, |_| digest(settings, &subscription.name));
        same_settings(subscription, overview.now, &digest, &mut subject);
    }
    for name in settings.subscriptions.keys().filter(|name| configured(name).is_some()) {
        if !overview.subscriptions.iter().any(|subscription| subscription.name == *name) {
            subject.part(name).warn(Check::SubscriptionCreated, "it is not in the database yet");
        }
    }
    far_behind(&overview.subscriptions, subject);
}

fn clock(overview: &Overview, subject: &mut Subject<'_>) {
    match overview.newest {
        Some((_, time)) if overview.now.until(time) > CLOCK_SKEW_MAX => {
            let ahead = age(overview.now.until(time));
            subject
                .warn(Check::ClockEvents, format!("the time of the last event is in the future, by {ahead}"));
        }
        _ => subject.ok(Check::ClockEvents, format!("it is {}", overview.now)),
    }
}

fn check_subscription(
    subscription: &SubscriptionOverview,
    now: Timestamp,
    of: Option<&SubscriptionSettings>,
    subject: &mut Subject<'_>,
) {
    match of {
        Some(_) => {
            subject.ok(Check::SubscriptionConfigured, "it is in the configuration and in the database")
        }
        None => subject.warn(Check::SubscriptionConfigured, "it is only in the database"),
    }
    lease(subscription, now, of, subject);
    match &subscription.paused {
        Some(reason) => subject.warn(Check::NotPaused, format!("paused: {reason}")),
        None => subject.ok(Check::NotPaused, "not paused"),
    }
    match &subscription.halted {
        Some(reason) => subject.fail(Check::NotHalted, format!("halted: {reason}")),
        None => subject.ok(Check::NotHalted, "not halted"),
    }
    parked(subscription, of, subject);
    destinations(subscription, now, subject);
}

/// Relays whose version or settings differ from those of this program, or, if it has none for the subscription, of the
/// first relay.
fn same_settings(
    subscription: &SubscriptionOverview,
    now: Timestamp,
    digest: &str,
    subject: &mut Subject<'_>,
) {
    let relays: Vec<_> = subscription.relays.iter().filter(|of| of.is_current(now)).collect();
    let Some(first) = relays.first() else { return };
    let (wanted, whose) = match digest {
        "" => (first.facts.settings.as_str(), first.relay.as_str()),
        digest => (digest, "this configuration"),
    };
    let differs = |of: &&RelayOverview| {
        let mut parts = differences(&of.facts.settings, wanted).join(", ");
        if !parts.is_empty() {
            parts = format!("other {parts} than {whose}");
        }
        if !of.facts.version.is_empty() && of.facts.version != VERSION {
            let comma = if parts.is_empty() { "" } else { ", " };
            parts = format!("{parts}{comma}version {} and not {VERSION}", of.facts.version);
        }
        (!parts.is_empty()).then(|| format!("relay {} has {parts}", of.relay))
    };
    let found: Vec<String> = relays.iter().filter_map(differs).collect();
    match found.is_empty() {
        true => subject.ok(Check::SameSettings, format!("relays with the same settings: {}", relays.len())),
        false => subject.warn(Check::SameSettings, found.join("; ")),
    }
}

/// Destinations that are down according to the relay that holds the lease; unknown without one.
fn destinations(subscription: &SubscriptionOverview, now: Timestamp, subject: &mut Subject<'_>) {
    let Some(lease) = subscription.leader(now) else { return };
    let leading =
        subscription.relays.iter().filter(|of| of.leading && of.is_current(now) && of.relay == lease.holder);
    let down: Vec<String> = leading
        .flat_map(|of| &of.down)
        .map(|of| format!("{} is down since {}: {}", of.destination, of.since, of.error))
        .collect();
    if down.is_empty() {
        subject.ok(Check::DestinationUp, "no destination is down");
    } else {
        subject.warn(Check::DestinationUp, down.join("; "));
    }
}

fn lease(
    subscription: &SubscriptionOverview,
    now: Timestamp,
    of: Option<&SubscriptionSettings>,
    subject: &mut Subject<'_>,
) {
    let Some(lease) = subscription.leader(now) else {
        unserved(subscription, subject);
        return;
    };
    let left = now.until(lease.expires_at);
    subject.ok(Check::Served, format!("{} holds the lease for {}", lease.holder, age(left)));
    let longest = of.map_or(Duration::MAX, |of| of.policy.lease.saturating_add(CLOCK_SKEW_MAX));
    if left > longest {
        let what =
            format!("the lease expires at {}, later than its maximum duration allows", lease.expires_at);
        subject.warn(Check::ClockLeases, what);
    } else {
        subject.ok(Check::ClockLeases, format!("the lease expires at {}", lease.expires_at));
    }
}

fn unserved(subscription: &SubscriptionOverview, subject: &mut Subject<'_>) {
    let waiting = |state| subscription.parked.count(state);
    let parked: u64 = [ParkedState::Retry, ParkedState::Held, ParkedState::Behind].map(waiting).iter().sum();
    match subscription.backlog {
        Backlog { events: 0, .. } if parked > 0 => {
            let events = count(parked, "event");
            subject.warn(
                Check::Served,
                format!("{events} parked and waiting for a retry, but no relay serves the subscription"),
            );
        }
        Backlog { events: 0, .. } => subject.ok(Check::Served, "no event is waiting"),
        Backlog { events, more, .. } => {
            let more = if more { "at least " } else { "" };
            let events = count(events, "event");
            subject.warn(
                Check::Served,
                format!("{more}{events} undelivered, but no relay serves the subscription"),
            );
        }
    }
    match &subscription.lease {
        Some(lease) => {
            let what = format!("the lease of {} expired at {}", lease.holder, lease.expires_at);
            subject.warn(Check::ShutDownCleanly, what);
        }
        None if !subscription.clean => {
            subject.warn(Check::ShutDownCleanly, "the last relay did not shut down cleanly")
        }
        None => subject.ok(Check::ShutDownCleanly, "no relay holds the lease"),
    }
}

fn parked(subscription: &SubscriptionOverview, of: Option<&SubscriptionSettings>, subject: &mut Subject<'_>) {
    let parked = &subscription.parked;
    if let Some(of) = of {
        let (total, max) = (parked.total(), of.policy.parked_max as u64);
        let what = format!("{total} of {max} are parked");
        if total >= max {
            subject.fail(Check::ParkedBelowLimit, what);
        } else if total.saturating_mul(100) >= max.saturating_mul(PARKED_WARN_PERCENT) {
            subject.warn(Check::ParkedBelowLimit, what);
        } else {
            subject.ok(Check::ParkedBelowLimit, what);
        }
    }
    let given_up: Vec<String> = [ParkedState::Dead, ParkedState::Expired, ParkedState::Unrouted]
        .into_iter()
        .filter(|state| parked.count(*state) > 0)
        .map(|state| format!("{} {}", parked.count(state), state.as_str()))
        .collect();
    if given_up.is_empty() {
        subject.ok(Check::NoneGivenUp, "no event is dead or unrouted");
    } else {
        subject.warn(Check::NoneGivenUp, given_up.join(", "));
    }
}

/// Reports the subscription with the lowest floor if the next one is far ahead of it.
fn far_behind(subscriptions: &[SubscriptionOverview], subject: &mut Subject<'_>) {
    let mut by_floor: Vec<_> = subscriptions.iter().collect();
    by_floor.sort_by_key(|subscription| subscription.floor);
    if let [slowest, next, ..] = by_floor.as_slice() {
        let behind = next.floor.get() - slowest.floor.get();
        if behind >= FAR_BEHIND_POSITIONS {
            let what = format!("it is {behind} positions behind {:?}, the next", next.name);
            subject.part(&slowest.name).warn(Check::NoneFarBehind, what);
        }
    }
}
