//! Whether a relay does its work, for `/readyz`.

use std::time::Duration;

use postrider::Timestamp;
use postrider::relay::{OutboxHealth, SubscriptionStatus};
use serde::Serialize;

/// A database error must last this long before the relay is not ready: a failover within it changes nothing.
const DATABASE_LOST_AFTER: Duration = Duration::from_secs(5);

/// The answer of `/readyz`.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Readiness {
    ready: bool,
    /// Why not.
    problems: Vec<String>,
}

impl Readiness {
    pub(super) fn is_ready(&self) -> bool {
        self.ready
    }

    fn new(problems: Vec<String>) -> Self {
        Self { ready: problems.is_empty(), problems }
    }

    /// Before the relay serves anything.
    pub(super) fn starting() -> Self {
        Self::new(vec!["the relay is starting, or waits for a database".to_owned()])
    }

    /// Decides from the state of the relay and the last overviews. Not ready are: a database that cannot be reached, and a
    /// backlog without progress. Ready are: a relay on standby, a subscription that an operator stopped, and one whose
    /// destination is down, because a restart would not change any of these.
    pub(super) fn of(
        status: &[SubscriptionStatus],
        outboxes: &[OutboxHealth],
        stalled_after: Duration,
        now: Timestamp,
    ) -> Self {
        let mut problems = Vec::new();
        for of in status {
            let name = named(of);
            if let (Some(error), true) = (&of.error, of.is_database_error)
                && of.error_since.is_some_and(|since| since.until(now) >= DATABASE_LOST_AFTER)
            {
                problems.push(format!("{name}: the database cannot be used: {error}"));
            }
        }
        for outbox in outboxes {
            if let Some(error) = &outbox.error {
                problems.push(format!("{}: the database cannot be read: {error}", outbox.outbox));
                continue;
            }
            for health in &outbox.subscriptions {
                let serving = status.iter().find(|of| {
                    of.subscription == health.subscription
                        && of.outbox.as_ref().is_none_or(|name| *name == outbox.outbox)
                });
                let Some(of) = serving else { continue };
                let is_expected_to_deliver = of.state.leading.is_some()
                    && of.state.paused.is_none()
                    && of.state.destinations_down == 0
                    && !health.is_stopped;
                let idle = of.last_progress_at.map_or(Duration::MAX, |at| at.until(now));
                // The backlog is that of the overview: what was delivered after it says nothing about a stall.
                let idle_before = idle.saturating_sub(outbox.age.unwrap_or_default());
                if is_expected_to_deliver
                    && health.backlog.events > 0
                    && health.backlog_age >= stalled_after
                    && idle_before >= stalled_after
                {
                    let (events, name) = (health.backlog.events, named(of));
                    problems.push(format!(
                        "{name}: {events} events wait, and nothing was delivered or settled for {}s",
                        idle.as_secs()
                    ));
                }
            }
        }
        Self::new(problems)
    }
}

fn named(of: &SubscriptionStatus) -> String {
    match &of.outbox {
        Some(outbox) => format!("{outbox}/{}", of.subscription),
        None => of.subscription.clone(),
    }
}

#[cfg(test)]
mod tests {
    use postrider::relay::SubscriptionHealth;
    use postrider::store::Epoch;

    use super::*;

    const STALLED: Duration = Duration::from_secs(60);

    fn now() -> Timestamp {
        Timestamp::from_micros(1_000_000_000_000)
    }

    fn ago(seconds: i64) -> Option<Timestamp> {
        Some(Timestamp::from_micros(now().as_micros() - seconds * 1_000_000))
    }

    /// A leader with a backlog that has delivered nothing for two minutes.
    fn stalled() -> (SubscriptionStatus, OutboxHealth) {
        let mut status = SubscriptionStatus::default();
        status.subscription = "orders".to_owned();
        status.state.leading = Some(Epoch(1));
        status.last_progress_at = ago(120);
        let mut health = SubscriptionHealth::default();
        health.subscription = "orders".to_owned();
        health.backlog.events = 7;
        health.backlog_age = Duration::from_secs(90);
        let mut outbox = OutboxHealth::default();
        outbox.outbox = "shop".to_owned();
        outbox.subscriptions = vec![health];
        (status, outbox)
    }

    fn problems(status: &SubscriptionStatus, outbox: &OutboxHealth) -> Vec<String> {
        Readiness::of(std::slice::from_ref(status), std::slice::from_ref(outbox), STALLED, now()).problems
    }

    #[test]
    fn a_backlog_without_progress_is_not_ready() {
        let (status, outbox) = stalled();
        let found = problems(&status, &outbox);
        assert_eq!(found, ["orders: 7 events wait, and nothing was delivered or settled for 120s"]);
    }

    #[test]
    fn a_relay_that_makes_progress_or_has_nothing_to_do_is_ready() {
        let (mut status, outbox) = stalled();
        status.last_progress_at = ago(59);
        assert_eq!(problems(&status, &outbox), [""; 0]);
        let (status, mut outbox) = stalled();
        outbox.subscriptions[0].backlog.events = 0;
        assert_eq!(problems(&status, &outbox), [""; 0]);
        let (mut status, mut outbox) = stalled();
        (status.last_progress_at, outbox.age) = (ago(62), Some(Duration::from_secs(3)));
        assert_eq!(
            problems(&status, &outbox),
            [""; 0],
            "it may have delivered everything since the overview"
        );
        let (status, mut outbox) = stalled();
        outbox.subscriptions[0].backlog_age = Duration::from_secs(59);
        assert_eq!(problems(&status, &outbox), [""; 0], "its first events have just arrived");
    }

    #[test]
    fn standby_a_pause_and_a_destination_that_is_down_are_ready() {
        let (mut status, outbox) = stalled();
        status.state.leading = None;
        assert_eq!(problems(&status, &outbox), [""; 0]);
        let (mut status, outbox) = stalled();
        status.state.paused = Some("moving".to_owned());
        assert_eq!(problems(&status, &outbox), [""; 0]);
        let (mut status, outbox) = stalled();
        status.state.destinations_down = 1;
        assert_eq!(problems(&status, &outbox), [""; 0]);
        let (status, mut outbox) = stalled();
        outbox.subscriptions[0].is_stopped = true;
        assert_eq!(problems(&status, &outbox), [""; 0]);
    }

    #[test]
    fn a_lost_database_is_not_ready_and_a_failed_takeover_of_the_destination_is() {
        let mut status = SubscriptionStatus::default();
        status.error = Some("no connection".to_owned());
        status.error_since = ago(6);
        let outbox = OutboxHealth::default();
        assert_eq!(problems(&status, &outbox), [""; 0], "it is an error of the destination");
        status.is_database_error = true;
        assert_eq!(problems(&status, &outbox).len(), 1);
        status.error_since = ago(4);
        assert_eq!(problems(&status, &outbox), [""; 0], "it may be over soon");
        let mut outbox = OutboxHealth::default();
        outbox.error = Some("no answer".to_owned());
        assert_eq!(problems(&SubscriptionStatus::default(), &outbox).len(), 1);
    }
}
