//! Pseudo-random numbers from a seed.

use std::time::Duration;

pub(crate) struct Rng(u64);

impl Rng {
    /// A separate generator for each participant.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng =
            Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        rng.below(2);
        rng
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    pub(crate) fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Pauses for up to this many microseconds. The pauses only vary the timing; no task waits for another with them.
    pub(crate) async fn pause(&mut self, micros_max: u64) {
        tokio::time::sleep(Duration::from_micros(self.below(micros_max + 1))).await;
    }
}
