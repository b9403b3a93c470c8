//! The subscriptions of an outbox, whatever its database.

use std::time::Duration;

use postrider::Timestamp;
use postrider::ledger::ParkedState;
use postrider::store::{Overview, SubscriptionOverview};

use super::Check;
use super::diagnosis::Patient;
use crate::config::Settings;
use crate::config::settings::SubscriptionSettings;
use crate::output::age;

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
            patient.warn(Check::ClockEvents, format!("the last event is from the future, by {ahead}"));
        }
        _ => patient.ok(Check::ClockEvents, format!("{}", overview.now)),
    }
}

fn examine_one(
    subscription: &SubscriptionOverview,
    now: Timestamp,
    of: Option<&SubscriptionSettings>,
    patient: &mut Patient<'_>,
) {
    match of {
        Some(_) => patient.ok(Check::SubscriptionConfigured, "it is"),
        None => patient.warn(Check::SubscriptionConfigured, "it is in the database only"),
    }
    lease(subscription, now, of, patient);
    if let Some(reason) = &subscription.paused {
        patient.warn(Check::NotPaused, format!("paused: {reason}"));
    }
    if let Some(reason) = &subscription.halted {
        patient.fail(Check::NotHalted, format!("halted: {reason}"));
    }
    parked(subscription, of, patient);
}

fn lease(
    subscription: &SubscriptionOverview,
    now: Timestamp,
    of: Option<&SubscriptionSettings>,
    patient: &mut Patient<'_>,
) {
    let waiting = subscription.backlog.events;
    match (subscription.leader(now), &subscription.lease) {
        (Some(lease), _) => {
            let left = now.until(lease.expires_at);
            patient.ok(Check::Served, format!("{} has the lease for {}", lease.holder, age(left)));
            let longest = of.map_or(Duration::MAX, |of| of.policy.lease.saturating_add(CLOCK_SKEW_MAX));
            if left > longest {
                let until = lease.expires_at;
                patient.warn(Check::ClockLeases, format!("the lease ends at {until}, later than one can"));
            }
            return;
        }
        (None, Some(lease)) if subscription.halted.is_none() => {
            let what = format!("{} let its lease run out at {}", lease.holder, lease.expires_at);
            patient.warn(Check::LeftInOrder, what);
        }
        (None, None) if !subscription.clean => {
            patient.warn(Check::LeftInOrder, "the last relay left something unfinished");
        }
        _ => patient.ok(Check::LeftInOrder, "nobody has the lease"),
    }
    if waiting == 0 {
        patient.ok(Check::Served, "nothing waits");
    } else {
        let more = if subscription.backlog.more { "at least " } else { "" };
        patient.warn(Check::Served, format!("{more}{waiting} events wait and no relay works it"));
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
        patient.ok(Check::NothingGivenUp, "none");
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
