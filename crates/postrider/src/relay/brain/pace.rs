//! The limit of events and bytes per second that go to the sink: when the next batch may be sent, and how large it may be.

use std::time::Duration;

use crate::relay::Policy;

/// A batch contains at most what the limit allows in a second divided by this, so that the load is even.
const PARTS_PER_SECOND: u64 = 10;

/// Decides when the next batch may go to the sink. What is sent occupies the sink for as long as the limit says; an idle
/// time is not saved up.
#[derive(Debug, Default)]
pub(super) struct Pace {
    free_at: Duration,
}

impl Pace {
    /// When the next batch may be sent.
    pub(super) fn free_at(&self) -> Duration {
        self.free_at
    }

    /// The largest batch: events and bytes. One event may always be sent, of any size.
    pub(super) fn batch_max(policy: &Policy) -> (usize, usize) {
        let part = |limit: Option<u64>| match limit {
            None => usize::MAX,
            Some(limit) => usize::try_from(limit / PARTS_PER_SECOND).unwrap_or(usize::MAX).max(1),
        };
        (part(policy.events_per_second_max), part(policy.bytes_per_second_max))
    }

    /// Events are sent.
    pub(super) fn sent(&mut self, now: Duration, policy: &Policy, events: usize, bytes: usize) {
        let takes = |number: usize, limit: Option<u64>| match limit {
            None => Duration::ZERO,
            Some(limit) => {
                let nanos = (number as u128 * 1_000_000_000).div_ceil(u128::from(limit.max(1)));
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
        };
        let longest =
            takes(events, policy.events_per_second_max).max(takes(bytes, policy.bytes_per_second_max));
        if !longest.is_zero() {
            self.free_at = self.free_at.max(now).saturating_add(longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Sends as fast as allowed for some seconds. Returns how many events and bytes were sent in each second.
    fn drain(policy: &Policy, bytes_each: usize, seconds: u32) -> Vec<(usize, usize)> {
        let mut pace = Pace::default();
        let mut sent = vec![(0, 0); seconds as usize];
        let mut now = Duration::ZERO;
        while now < SECOND * seconds {
            let (events_max, bytes_max) = Pace::batch_max(policy);
            let events = events_max.min((bytes_max / bytes_each).max(1)).min(1_000);
            pace.sent(now, policy, events, events * bytes_each);
            let second = &mut sent[usize::try_from(now.as_secs()).unwrap()];
            *second = (second.0 + events, second.1 + events * bytes_each);
            now = pace.free_at().max(now + Duration::from_millis(1));
        }
        sent
    }

    #[test]
    fn no_second_gets_more_events_than_the_limit() {
        for limit in [1, 3, 10, 1_000, 99_999] {
            let sent = drain(&Policy::default().events_per_second_max(Some(limit)), 100, 10);
            let limit = usize::try_from(limit).unwrap();
            assert!(sent.iter().all(|(events, _)| *events <= limit + limit / 10), "{limit}: {sent:?}");
            let total: usize = sent.iter().map(|(events, _)| events).sum();
            assert!((limit * 10 * 95 / 100..=limit * 10 + limit).contains(&total), "{limit}: {total}");
        }
    }

    #[test]
    fn no_second_gets_more_bytes_than_the_limit_unless_one_event_has_more() {
        let policy = Policy::default().bytes_per_second_max(Some(10_000));
        assert!(drain(&policy, 100, 10).iter().all(|(_, bytes)| *bytes <= 11_000));
        // An event of three seconds is followed by three seconds without any.
        let sent = drain(&policy, 30_000, 9);
        assert_eq!(sent.iter().map(|(events, _)| *events).sum::<usize>(), 3, "{sent:?}");
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let policy = Policy::default().events_per_second_max(Some(10));
        let mut pace = Pace::default();
        pace.sent(SECOND * 100, &policy, 1, 0);
        assert_eq!(pace.free_at(), SECOND * 100 + SECOND / 10);
    }

    #[test]
    fn without_limits_nothing_waits() {
        let mut pace = Pace::default();
        pace.sent(SECOND, &Policy::default(), usize::MAX, usize::MAX);
        assert_eq!(
            (pace.free_at(), Pace::batch_max(&Policy::default())),
            (Duration::ZERO, (usize::MAX, usize::MAX))
        );
        // A limit beyond any number does not overflow.
        pace.sent(SECOND, &Policy::default().bytes_per_second_max(Some(1)), 1, usize::MAX);
        assert!(pace.free_at() > SECOND * 1_000_000);
    }
}
