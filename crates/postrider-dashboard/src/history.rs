//! What the charts show: samples in memory, every 5 seconds for an hour and every minute for a day.

use std::collections::VecDeque;
use std::time::Duration;

use postrider::Timestamp;

/// The two rings: the time between samples, and how many there are.
const FINE: (Duration, usize) = (Duration::from_secs(5), 720);
const COARSE: (Duration, usize) = (Duration::from_secs(60), 1_440);

/// One subscription at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sample {
    pub(crate) at: Timestamp,
    /// Deliveries per second; `None` without a relay.
    pub(crate) rate: Option<f64>,
    /// The age of the oldest event that waits, in seconds.
    pub(crate) oldest: f64,
    pub(crate) backlog: u64,
    /// Parked and dead.
    pub(crate) parked: u64,
}

/// The samples of one subscription.
#[derive(Debug, Default)]
pub(crate) struct History {
    fine: VecDeque<Sample>,
    coarse: VecDeque<Sample>,
}

impl History {
    /// Adds a sample to each ring whose last one is old enough.
    pub(crate) fn add(&mut self, sample: Sample) {
        for (ring, (interval, max)) in [(&mut self.fine, FINE), (&mut self.coarse, COARSE)] {
            // Half a second early is on time: polls are not exact.
            let due = |last: &Sample| last.at.until(sample.at) + Duration::from_millis(500) >= interval;
            if ring.back().is_none_or(due) {
                ring.push_back(sample);
                while ring.len() > max {
                    ring.pop_front();
                }
            }
        }
    }

    /// The samples of the last hour, or of the last day.
    pub(crate) fn samples(&self, day: bool) -> Vec<Sample> {
        if day { self.coarse.iter().copied().collect() } else { self.fine.iter().copied().collect() }
    }

    /// The last few minutes, for a sparkline.
    pub(crate) fn recent(&self, samples: usize) -> Vec<Sample> {
        self.fine.iter().skip(self.fine.len().saturating_sub(samples)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_and_a_day_are_kept_and_no_more() {
        let mut history = History::default();
        for second in 0..100_000 {
            let at = Timestamp::from_micros(second * 1_000_000);
            history.add(Sample { at, rate: None, oldest: 0.0, backlog: 0, parked: 0 });
        }
        let (hour, day) = (history.samples(false), history.samples(true));
        assert_eq!((hour.len(), day.len()), (FINE.1, COARSE.1));
        let span = |samples: &[Sample]| samples[0].at.until(samples[samples.len() - 1].at).as_secs();
        assert!((3_500..=3_600).contains(&span(&hour)), "{}", span(&hour));
        assert!((86_000..=86_400).contains(&span(&day)), "{}", span(&day));
        assert_eq!(history.recent(3).len(), 3);
    }
}
