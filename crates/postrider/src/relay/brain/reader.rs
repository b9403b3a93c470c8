//! When to look for new events: at once while there are any, ever less often while there are none.

use std::time::Duration;

use super::random::doubled;
use crate::Position;
use crate::relay::Policy;

/// The cadence of claims.
#[derive(Debug)]
pub(super) struct Reader {
    /// A claim is under way.
    claiming: bool,
    /// Somebody said there is more while it was.
    woken: bool,
    next_at: Duration,
    empty_looks: u32,
    /// Whatever was visible up to here has been read; `None` once all of it has.
    passed: Option<Position>,
}

impl Reader {
    pub(super) fn new(now: Duration) -> Self {
        Self { claiming: false, woken: false, next_at: now, empty_looks: 0, passed: Some(Position::ZERO) }
    }

    /// When to claim next, if no claim is under way.
    pub(super) fn due(&self) -> Option<Duration> {
        (!self.claiming).then_some(self.next_at)
    }

    /// The last look found nothing.
    pub(super) fn is_idle(&self) -> bool {
        !self.claiming && self.empty_looks > 0
    }

    /// Whether everything this session may find before a position has been read.
    pub(super) fn has_passed(&self, position: Position) -> bool {
        self.passed.is_none_or(|passed| position <= passed)
    }

    pub(super) fn start(&mut self) {
        self.claiming = true;
        self.woken = false;
    }

    pub(super) fn wake(&mut self, now: Duration) {
        self.woken = true;
        self.empty_looks = 0;
        self.next_at = now;
    }

    /// A claim came back with events up to `last`, or without any.
    pub(super) fn claimed(&mut self, last: Option<Position>, more: bool, now: Duration, policy: &Policy) {
        self.claiming = false;
        self.passed = self.passed.filter(|_| more).map(|passed| last.map_or(passed, |last| last.max(passed)));
        self.empty_looks = if last.is_some() { 0 } else { self.empty_looks.saturating_add(1) };
        let wait = doubled(policy.poll_min, policy.poll_max, self.empty_looks.saturating_sub(1));
        self.next_at = if more || self.woken { now } else { now + wait };
    }

    /// A claim failed and nothing was read.
    pub(super) fn failed(&mut self, now: Duration, policy: &Policy) {
        self.claiming = false;
        self.next_at = now + policy.poll_max;
    }
}
