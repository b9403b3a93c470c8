//! A count over time, and the rates that follow from it.

use std::collections::VecDeque;
use std::time::Duration;

/// Samples kept: ten per second for ten minutes. Older ones are dropped.
const SAMPLES_MAX: usize = 6_000;

/// The period over which the current rate is averaged.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// Samples of an increasing count, in the order of time.
#[derive(Debug, Default)]
pub(super) struct TimeSeries {
    samples: VecDeque<(Duration, u64)>,
}

impl TimeSeries {
    pub(super) fn sample(&mut self, at: Duration, count: u64) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((at, count));
    }

    /// The count at the last sample.
    pub(super) fn last(&self) -> u64 {
        self.samples.back().map_or(0, |(_, count)| *count)
    }

    /// The current rate in events per second.
    pub(super) fn rate(&self) -> f64 {
        let Some((now, _)) = self.samples.back() else { return 0.0 };
        self.rate_between(now.saturating_sub(RATE_WINDOW), *now)
    }

    /// Events per second of consecutive steps of time, the last of which is the one `now` falls into. From
    /// the beginning of time if that is not further than `steps_max` away.
    pub(super) fn rates(&self, step: Duration, steps_max: usize, now: Duration) -> Vec<f64> {
        let steps = (now.as_secs_f64() / step.as_secs_f64()) as u32;
        let first = steps.saturating_sub(u32::try_from(steps_max).unwrap_or(u32::MAX));
        (first..steps).map(|number| self.rate_between(step * number, step * (number + 1))).collect()
    }

    fn rate_between(&self, from: Duration, to: Duration) -> f64 {
        let seconds = to.saturating_sub(from).as_secs_f64();
        if seconds == 0.0 { 0.0 } else { (self.count_at(to) - self.count_at(from)) / seconds }
    }

    /// The count at any time, on a straight line between the samples around it.
    fn count_at(&self, time: Duration) -> f64 {
        let after = self.samples.partition_point(|(at, _)| *at <= time);
        let before = after.checked_sub(1).and_then(|index| self.samples.get(index));
        match (before, self.samples.get(after)) {
            (Some((earlier, low)), Some((later, high))) => {
                let part = (time - *earlier).as_secs_f64() / (*later - *earlier).as_secs_f64();
                *low as f64 + (*high - *low) as f64 * part
            }
            (Some((_, count)), None) | (None, Some((_, count))) => *count as f64,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn time_series() -> TimeSeries {
        let mut time_series = TimeSeries::default();
        for (at, count) in [(0, 0), (1, 10), (3, 50), (4, 50)] {
            time_series.sample(seconds(at), count);
        }
        time_series
    }

    #[test]
    fn rates_follow_from_the_counts_for_any_spacing_of_samples() {
        assert_eq!(time_series().rates(seconds(1), 10, seconds(4)), [10.0, 20.0, 20.0, 0.0]);
        assert_eq!(time_series().rate(), 0.0);
    }

    #[test]
    fn only_the_last_steps_are_shown_when_there_are_too_many() {
        assert_eq!(time_series().rates(seconds(1), 2, seconds(4)), [20.0, 0.0]);
    }

    #[test]
    fn nothing_sampled_is_nothing_to_show() {
        assert_eq!(TimeSeries::default().rate(), 0.0);
        assert!(TimeSeries::default().rates(seconds(1), 5, Duration::ZERO).is_empty());
    }
}
