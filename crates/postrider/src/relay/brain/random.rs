//! Seeded randomness, for jitter only.

use std::time::Duration;

/// SplitMix64: small, good enough to spread retries, the same on every machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Between half of a duration and all of it, so that many waiting for the same do not wake together.
    pub(super) fn jitter(&mut self, duration: Duration) -> Duration {
        let half = duration / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_nanos(self.next() % nanos)
    }
}

/// `min` doubled for every earlier failure, at most `max`. Pure: jitter comes on top.
pub(super) fn doubled(min: Duration, max: Duration, failures_before: u32) -> Duration {
    min.saturating_mul(1_u32.checked_shl(failures_before.min(30)).unwrap_or(u32::MAX)).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_between_half_and_whole() {
        let mut random = Random::new(1);
        let whole = Duration::from_secs(8);
        assert!((0..1000).map(|_| random.jitter(whole)).all(|d| d >= whole / 2 && d <= whole));
    }

    #[test]
    fn waits_double_up_to_their_limit() {
        let (min, max) = (Duration::from_secs(1), Duration::from_secs(300));
        let waits: Vec<u64> = [0, 1, 2, 8, 9, 200].map(|n| doubled(min, max, n).as_secs()).to_vec();
        assert_eq!(waits, [1, 2, 4, 256, 300, 300]);
    }
}
