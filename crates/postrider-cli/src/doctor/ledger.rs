//! The subscriptions of an outbox, whatever its database.

use std::time::Duration;

use postrider::Timestamp;
use postrider::ledger::ParkedState;
use postrider::store::{Backlog, Overview, SubscriptionOverview};

use super::Check;
use super::diagnosis::Patient;
use crate::config::Settings;
use crate::config::settings::SubscriptionSettings;
use crate::output::{age, count};

/// Clocks of several machines may differ so much without harm.
const CLOCK_SKEW_MAX: Duration = Duration::from_secs(60);
/// Of `parked_max`, from here on it is time to look.
const PARKED_WARN_PERCENT: u64 = 80;
/// Positions between a subscription and the next one before it counts as far behind.
const FAR_BEHIND_POSITIONS: i64 = 100_000;

/// Looks at all subscriptions of the outbox and at those it should have.
pub(super) fn examine(outbox: &str, overview: &Overview, settings: &Settings, patient: &mut Patient<'_>) {
    clock(overview, patient);
    let configured = |name: &str| settings.subscriptions.get(name).filter(|of| of.outbox == outbox);
    for subscription in &overview.subscriptions {
        let of = configured(&subscription.name);
        let mut patient = patient.part(&subscription.name);
        examine_one(subscription, overview.now, of, &mut patient);
    }
    for name in settings.subscriptions.keys().filter(|name| configured(name).is_some()) {
        if !overview.subscriptions.iter().any(|subscription| subscription.name == *name) {
            patient.part(name).warn(Check::SubscriptionCreated, "it is not in the database yet");
        }
    }
    far_behind(&overview.subscriptions, patient);
}

fn clock(overview: &Overview, patient: &mut Patient<'_>) {
    match overview.newest {
        Some((_, time)) if overview.now.until(time) > CLOCK_SKEW_MAX => {
            let ahead = age(overview.now.until(time));
            patient.warn(Check::ClockEvents, format!("the time of the last event is in the future, by {ahead}"));
        }
        _ => patient.ok(Check::ClockEvents, format!("it is {}", overview.now)),
    }
}

fn examine_one(
    subscription: &SubscriptionOverview,
    now: Timestamp,
    of: Option<&SubscriptionSettings>,
    patient: &mut Patient<'_>,
) {
    match of {
        Some(_) => patient.ok(Check::SubscriptionConfigured, "it is in the configuration and in the database"),
        None => patient.warn(Check::SubscriptionConfigured, "it is only in the database"),
    }
    lease(subscription, now, of, patient);
    match &subscription.paused {
        Some(reason) => patient.warn(Check::NotPaused, format!("paused: {reason}")),
        None => patient.ok(Check::NotPaused, "not paused"),
    }
    match &subscription.halted {
        Some(reason) => patient.fail(Check::NotHalted, format!("halted: {reason}")),
        None => patient.ok(Check::NotHalted, "not halted"),
    }
    parked(subscription, of, patient);
    destinations(subscription, now, patient);
}

/// As the relay says that holds the lease; without one nobody knows.
fn destinations(subscription: &SubscriptionOverview, now: Timestamp, patient: &mut Patient<'_>) {
    let Some(lease) = subscription.leader(now) else { return };
    let leading = subscription.relays.iter().filter(|of| of.leading && of.relay == lease.holder);
    let down: Vec<String> = leading
        .flat_map(|of| &of.down)
        .map(|of| format!("{} is down since {}: {}", of.destination, of.since, of.error))
        .collect();
    if down.is_empty() {
        patient.ok(Check::DestinationUp, "no destination is down");
    } else {
        patient.warn(Check::DestinationUp, down.join("; "));
    }
}

fn lease(
    subscription: &SubscriptionOverview,
    now: Timestamp,
    of: Option<&SubscriptionSettings>,
    patient: &mut Patient<'_>,
) {
    let Some(lease) = subscription.leader(now) else {
        unserved(subscription, patient);
        return;
    };
    let left = now.until(lease.expires_at);
    patient.ok(Check::Served, format!("{} holds the lease for {}", lease.holder, age(left)));
    let longest = of.map_or(Duration::MAX, |of| of.policy.lease.saturating_add(CLOCK_SKEW_MAX));
    if left > longest {
        let what = format!("the lease expires at {}, later than its maximum duration allows", lease.expires_at);
        patient.warn(Check::ClockLeases, what);
    } else {
        patient.ok(Check::ClockLeases, format!("the lease expires at {}", lease.expires_at));
    }
}

fn unserved(subscription: &SubscriptionOverview, patient: &mut Patient<'_>) {
    let waiting = |state| subscription.parked.count(state);
    let parked: u64 = [ParkedState::Retry, ParkedState::Held, ParkedState::Behind].map(waiting).iter().sum();
    match subscription.backlog {
        Backlog { events: 0, .. } if parked > 0 => {
            let events = count(parked, "event");
            patient.warn(
                Check::Served,
                format!("{events} parked and waiting for a retry, but no relay serves the subscription"),
            );
        }
        Backlog { events: 0, .. } => patient.ok(Check::Served, "no event is waiting"),
        Backlog { events, more, .. } => {
            let more = if more { "at least " } else { "" };
            let events = count(events, "event");
            patient.warn(Check::Served, format!("{more}{events} undelivered, but no relay serves the subscription"));
        }
    }
    match &subscription.lease {
        Some(lease) => {
            let what = format!("the lease of {} expired at {}", lease.holder, lease.expires_at);
            patient.warn(Check::LeftInOrder, what);
        }
        None if !subscription.clean => {
            patient.warn(Check::LeftInOrder, "the last relay did not shut down cleanly")
        }
        None => patient.ok(Check::LeftInOrder, "no relay holds the lease"),
    }
}

fn parked(subscription: &SubscriptionOverview, of: Option<&SubscriptionSettings>, patient: &mut Patient<'_>) {
    let parked = &subscription.parked;
    if let Some(of) = of {
        let (total, max) = (parked.total(), of.policy.parked_max as u64);
        let what = format!("{total} of {max} are parked");
        if total >= max {
            patient.fail(Check::ParkedRoom, what);
        } else if total.saturating_mul(100) >= max.saturating_mul(PARKED_WARN_PERCENT) {
            patient.warn(Check::ParkedRoom, what);
        } else {
            patient.ok(Check::ParkedRoom, what);
        }
    }
    let given_up: Vec<String> = [ParkedState::Dead, ParkedState::Expired, ParkedState::Unrouted]
        .into_iter()
        .filter(|state| parked.count(*state) > 0)
        .map(|state| format!("{} {}", parked.count(state), state.as_str()))
        .collect();
    if given_up.is_empty() {
        patient.ok(Check::NothingGivenUp, "no event is dead or unrouted");
    } else {
        patient.warn(Check::NothingGivenUp, given_up.join(", "));
    }
}

/// The one with the lowest floor, if the next is far ahead of it.
fn far_behind(subscriptions: &[SubscriptionOverview], patient: &mut Patient<'_>) {
    let mut by_floor: Vec<_> = subscriptions.iter().collect();
    by_floor.sort_by_key(|subscription| subscription.floor);
    if let [slowest, next, ..] = by_floor.as_slice() {
        let behind = next.floor.get() - slowest.floor.get();
        if behind >= FAR_BEHIND_POSITIONS {
            let what = format!("it is {behind} positions behind {:?}, the next", next.name);
            patient.part(&slowest.name).warn(Check::NobodyFarBehind, what);
        }
    }
}
