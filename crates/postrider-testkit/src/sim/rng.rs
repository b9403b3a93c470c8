//! Random numbers from a seed, the same on every machine.

use std::time::Duration;

/// SplitMix64: small, fast, and good enough for a simulation.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

/// A range of times, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) min_us: u64,
    pub(crate) max_us: u64,
}

impl Span {
    pub(crate) const fn us(min_us: u64, max_us: u64) -> Self {
        Self { min_us, max_us }
    }

    pub(crate) const fn ms(min_ms: u64, max_ms: u64) -> Self {
        Self::us(min_ms * 1000, max_ms * 1000)
    }
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// The same for sizes.
    pub(crate) fn size(&mut self, low: usize, high: usize) -> usize {
        self.between(low as u64, high as u64) as usize
    }

    /// An index below `len`, which is not 0.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        self.size(0, len - 1)
    }

    /// True with a probability of `times` in a thousand.
    pub(crate) fn permille(&mut self, times: u32) -> bool {
        self.next() % 1000 < u64::from(times)
    }

    /// True with a probability of one half.
    pub(crate) fn coin(&mut self) -> bool {
        self.next() & 1 == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub(crate) fn time(&mut self, span: Span) -> Duration {
        Duration::from_micros(self.between(span.min_us, span.max_us))
    }
}
