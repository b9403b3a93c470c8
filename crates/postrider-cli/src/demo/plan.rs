//! How long the demo runs, how much it writes, and when its outage happens.

use std::f64::consts::TAU;
use std::ops::Range;
use std::time::Duration;

/// Writer threads.
pub(crate) const WRITERS: u64 = 4;

/// Transactions per second of all writers together, on average, with the live view.
const TRANSACTIONS_PER_S: f64 = 1_300.0;

/// From one rush hour to the next.
const RUSH_EVERY_S: f64 = 4.0;

/// Maximum duration of the outage.
const OUTAGE_MAX: Duration = Duration::from_secs(3);

/// The plan of a demo.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    /// The shop closes after this.
    pub(crate) open_for: Option<Duration>,
    /// The shop closes when this many events are committed.
    pub(crate) events: Option<u64>,
    /// Without live view: full speed and no outage.
    pub(crate) hurry: bool,
}

impl Plan {
    /// How long the shop will be open, if this is known.
    pub(crate) fn expected(&self) -> Option<Duration> {
        let by_events = self.events.filter(|_| !self.hurry).map(|n| n as f64 / TRANSACTIONS_PER_S);
        let by_events = by_events.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        self.open_for.into_iter().chain(by_events).min()
    }

    /// When a destination is down, if it is.
    pub(crate) fn outage(&self) -> Option<Range<Duration>> {
        let length = self.expected().filter(|_| !self.hurry)?;
        let begin = length.mul_f64(0.35);
        Some(begin..begin + length.mul_f64(0.2).min(OUTAGE_MAX))
    }

    /// How long a writer pauses between two transactions at this time of the day.
    pub(crate) fn pause(&self, elapsed: Duration) -> Option<Duration> {
        if self.hurry {
            return None;
        }
        let rush = 1.0 + 0.45 * (elapsed.as_secs_f64() / RUSH_EVERY_S * TAU).sin();
        Some(Duration::from_secs_f64(WRITERS as f64 / (TRANSACTIONS_PER_S * rush)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_and_ends_while_the_shop_is_open() {
        for seconds in [1, 15, 600] {
            let open_for = Duration::from_secs(seconds);
            let plan = Plan { open_for: Some(open_for), ..Plan::default() };
            let outage = plan.outage().unwrap();
            assert!(
                outage.start < outage.end && outage.end < open_for && outage.end - outage.start <= OUTAGE_MAX
            );
        }
    }

    #[test]
    fn in_a_hurry_nothing_waits_and_nothing_is_staged() {
        let plan = Plan { events: Some(1_000), hurry: true, ..Plan::default() };
        assert_eq!((plan.pause(Duration::ZERO), plan.outage()), (None, None));
    }
}
