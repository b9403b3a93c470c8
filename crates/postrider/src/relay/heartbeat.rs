//! When a relay reports about itself, and the figures of its report that need a history. Knows no clock: callers pass the
//! time.

use std::time::Duration;

use super::SubscriptionState;
use crate::store::{RelayFacts, RelayRole};
use crate::{Now, Timestamp};

/// A report is written at least this often, or three times per lease if that is more often.
const INTERVAL_MAX: Duration = Duration::from_secs(5);

/// A change, such as a destination that is down, is reported at once, but not sooner than this after the last report.
const GAP_MIN: Duration = Duration::from_secs(2);

/// The rate is measured over at least this time.
const WINDOW_MIN: Duration = Duration::from_secs(1);

/// The reports of one subscription.
#[derive(Debug)]
pub(super) struct Heartbeat {
    /// A third of the lease: a report is valid for one lease.
    third: Duration,
    sent_at: Option<Duration>,
    has_changed: bool,
    has_new_role: bool,
    role: Option<(RelayRole, Timestamp)>,
    /// What was delivered and settled at the last step.
    progress: Option<(u64, i64, i64, u64)>,
    last_progress_at: Option<Timestamp>,
    window_start: Option<(Duration, u64)>,
    /// Messages acknowledged in the last complete window, and its length.
    rate: (u64, Duration),
}

impl Heartbeat {
    pub(super) fn new(lease: Duration) -> Self {
        Self {
            third: lease / 3,
            sent_at: None,
            has_changed: true,
            has_new_role: true,
            role: None,
            progress: None,
            last_progress_at: None,
            window_start: None,
            rate: (0, Duration::ZERO),
        }
    }

    /// Something happened that operators should see soon.
    pub(super) fn changed(&mut self) {
        self.has_changed = true;
    }

    /// Takes the state after a step of the brain.
    pub(super) fn observe(&mut self, now: Now, role: RelayRole, state: &SubscriptionState) {
        if self.role.is_none_or(|(known, _)| known != role) {
            self.role = Some((role, now.wall));
            self.has_new_role = true;
            if role == RelayRole::Leading {
                self.last_progress_at = Some(now.wall);
            }
        }
        let progress = (state.acknowledged, state.floor.get(), state.highest_done.get(), state.parked);
        let before = self.progress.replace(progress);
        if state.leading.is_some() && before.is_some_and(|before| before != progress) {
            self.last_progress_at = Some(now.wall);
        }
        self.window_start.get_or_insert((now.elapsed, state.acknowledged));
    }

    /// When this relay last delivered or settled something, or began to lead.
    pub(super) fn last_progress_at(&self) -> Option<Timestamp> {
        self.last_progress_at
    }

    /// When the next report is due.
    pub(super) fn due(&self) -> Duration {
        // Between two roles there is always a part of the lease.
        let wait = match (self.has_new_role, self.has_changed) {
            (true, _) => Duration::ZERO,
            (false, true) => GAP_MIN,
            (false, false) => INTERVAL_MAX,
        };
        self.sent_at.map_or(Duration::ZERO, |at| at.saturating_add(wait.min(self.third)))
    }

    /// Starts a report: it counts as sent. Returns the figures that need a history.
    pub(super) fn start(&mut self, now: Now, state: &SubscriptionState) -> RelayFacts {
        self.sent_at = Some(now.elapsed);
        (self.has_changed, self.has_new_role) = (false, false);
        if let Some((start, acknowledged)) = self.window_start {
            let window = now.elapsed.saturating_sub(start);
            if window >= WINDOW_MIN {
                self.rate = (state.acknowledged.saturating_sub(acknowledged), window);
                self.window_start = Some((now.elapsed, state.acknowledged));
            }
        }
        let (delivered, window) = self.rate;
        RelayFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            since: self.role.map_or(now.wall, |(_, since)| since),
            epoch: state.leading,
            delivered,
            window,
            last_progress_at: self.last_progress_at,
            in_flight: state.in_flight as u64,
            read_ahead_events: state.events_in_memory as u64,
            read_ahead_bytes: state.bytes_in_memory as u64,
            ..RelayFacts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Epoch;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Now {
        let wall = Timestamp::from_micros(i64::from(seconds) * 1_000_000);
        Now { elapsed: SECOND * seconds, wall }
    }

    fn leading(acknowledged: u64) -> SubscriptionState {
        SubscriptionState { acknowledged, leading: Some(Epoch(1)), ..SubscriptionState::default() }
    }

    #[test]
    fn a_report_is_written_every_five_seconds_and_a_change_after_two() {
        let mut heartbeat = Heartbeat::new(Duration::from_secs(60));
        heartbeat.observe(at(1), RelayRole::Leading, &leading(0));
        assert_eq!(heartbeat.due(), Duration::ZERO, "the first one at once");
        heartbeat.start(at(1), &leading(0));
        assert_eq!(heartbeat.due(), SECOND * 6);
        heartbeat.observe(at(2), RelayRole::Leading, &leading(5));
        assert_eq!(heartbeat.due(), SECOND * 6, "progress is no change");
        heartbeat.changed();
        assert_eq!(heartbeat.due(), SECOND * 3);
        heartbeat.observe(at(2), RelayRole::StandingBy, &SubscriptionState::default());
        assert_eq!(heartbeat.due(), SECOND, "a new role is reported at once");
    }

    #[test]
    fn a_report_is_renewed_before_it_expires_with_any_lease() {
        for millis in [100, 900, 5_000, 15_000, 3_600_000] {
            let lease = Duration::from_millis(millis);
            let mut heartbeat = Heartbeat::new(lease);
            heartbeat.start(at(1), &leading(0));
            let next = heartbeat.due().saturating_sub(SECOND);
            assert!(next <= lease / 3 && next <= INTERVAL_MAX, "{lease:?}: {next:?}");
        }
    }

    #[test]
    fn the_rate_is_that_of_the_last_window_of_at_least_a_second() {
        let mut heartbeat = Heartbeat::new(SECOND * 15);
        heartbeat.observe(at(0), RelayRole::Leading, &leading(0));
        assert_eq!(heartbeat.start(at(0), &leading(0)).rate(), None, "nothing is known yet");
        assert_eq!(heartbeat.start(at(5), &leading(1_000)).rate(), Some(200.0));
        let soon = Now { elapsed: SECOND * 5 + SECOND / 2, ..at(5) };
        assert_eq!(heartbeat.start(soon, &leading(1_001)).rate(), Some(200.0), "too short to measure");
        assert_eq!(heartbeat.start(at(10), &leading(1_010)).rate(), Some(2.0));
    }

    #[test]
    fn progress_is_what_a_leader_delivers_or_settles() {
        let mut heartbeat = Heartbeat::new(SECOND);
        heartbeat.observe(at(1), RelayRole::StandingBy, &SubscriptionState::default());
        heartbeat.observe(at(2), RelayRole::Leading, &leading(0));
        assert_eq!(heartbeat.last_progress_at(), Some(at(2).wall), "it begins to lead");
        heartbeat.observe(at(3), RelayRole::Leading, &leading(1));
        heartbeat.observe(at(4), RelayRole::Leading, &leading(1));
        assert_eq!(heartbeat.last_progress_at(), Some(at(3).wall));
        let facts = heartbeat.start(at(5), &leading(1));
        assert_eq!((facts.since, facts.epoch), (at(2).wall, Some(Epoch(1))));
    }
}
