//! When to read new events: immediately while there are any, with increasing delays while there are none.

use std::time::Duration;

use super::random::doubled;
use crate::Position;
use crate::relay::Policy;

/// The timing of claims.
#[derive(Debug)]
pub(super) struct Reader {
    /// A claim is in progress.
    claiming: bool,
    /// A wake-up arrived during the claim.
    woken: bool,
    next_at: Duration,
    empty_claims: u32,
    /// All events that were visible up to this position have been read; `None` once all visible events have.
    passed: Option<Position>,
    /// The last claim left events unread.
    has_unread: bool,
}

/// The result of a claim, as far as it affects the timing.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimSummary {
    /// The position of its last event, if it returned any.
    pub(super) last: Option<Position>,
    /// The next claim would return events.
    pub(super) more_at_once: bool,
    /// Not all visible events have been read.
    pub(super) has_unread: bool,
}

impl Reader {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            claiming: false,
            woken: false,
            next_at: now,
            empty_claims: 0,
            passed: Some(Position::ZERO),
            has_unread: true,
        }
    }

    /// When to claim next, if no claim is in progress.
    pub(super) fn due(&self) -> Option<Duration> {
        (!self.claiming).then_some(self.next_at)
    }

    /// The last claim returned no event and left none unread.
    pub(super) fn is_idle(&self) -> bool {
        !self.claiming && self.empty_claims > 0 && !self.has_unread
    }

    /// Whether every event up to a position that this term has to read has been read.
    pub(super) fn has_passed(&self, position: Position) -> bool {
        self.passed.is_none_or(|passed| position <= passed)
    }

    pub(super) fn start(&mut self) {
        self.claiming = true;
        self.woken = false;
    }

    pub(super) fn wake(&mut self, now: Duration) {
        self.woken = true;
        self.empty_claims = 0;
        self.next_at = now;
    }

    /// A claim has returned. After one that left events unread but could not return them yet, the wait is the same as
    /// after an empty one.
    pub(super) fn claimed(&mut self, claim: ClaimSummary, now: Duration, policy: &Policy) {
        let ClaimSummary { last, more_at_once, has_unread } = claim;
        self.claiming = false;
        self.has_unread = has_unread;
        self.passed =
            self.passed.filter(|_| has_unread).map(|passed| last.map_or(passed, |last| last.max(passed)));
        self.empty_claims = if last.is_some() { 0 } else { self.empty_claims.saturating_add(1) };
        let wait = doubled(policy.poll_min, policy.poll_max, self.empty_claims.saturating_sub(1));
        self.next_at = if more_at_once || self.woken { now } else { now + wait };
    }

    /// A claim failed and nothing was read.
    pub(super) fn failed(&mut self, now: Duration, policy: &Policy) {
        self.claiming = false;
        self.next_at = now + policy.poll_max;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn claimed(reader: &mut Reader, last: Option<i64>, more_at_once: bool, has_unread: bool) -> Duration {
        reader.start();
        let claim = ClaimSummary { last: last.map(Position::new), more_at_once, has_unread };
        reader.claimed(claim, NOW, &Policy::default());
        reader.due().unwrap() - NOW
    }

    #[test]
    fn claims_that_read_nothing_become_less_frequent_and_do_not_count_as_caught_up() {
        let mut reader = Reader::new(NOW);
        assert_eq!(claimed(&mut reader, Some(7), true, true), Duration::ZERO);
        let waits: Vec<u128> = (0..8).map(|_| claimed(&mut reader, None, false, true).as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 500, 500]);
        assert!(reader.has_passed(Position::new(7)) && !reader.has_passed(Position::new(8)));
        assert!(!reader.is_idle());
    }

    #[test]
    fn a_claim_without_unread_events_has_read_everything() {
        let mut reader = Reader::new(NOW);
        claimed(&mut reader, Some(7), false, false);
        assert!(reader.has_passed(Position::new(1_000)));
        // Events that became visible after the start of the term do not matter.
        claimed(&mut reader, None, false, true);
        assert!(reader.has_passed(Position::new(1_000)) && !reader.is_idle());
        claimed(&mut reader, None, false, false);
        assert!(reader.is_idle());
    }

    #[test]
    fn a_wake_up_ends_the_wait() {
        let mut reader = Reader::new(NOW);
        claimed(&mut reader, None, false, true);
        reader.wake(NOW);
        assert_eq!(reader.due(), Some(NOW));
        reader.start();
        reader.wake(NOW);
        reader.claimed(
            ClaimSummary { last: None, more_at_once: false, has_unread: true },
            NOW,
            &Policy::default(),
        );
        assert_eq!(reader.due(), Some(NOW));
    }
}
