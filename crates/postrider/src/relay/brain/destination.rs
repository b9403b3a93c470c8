//! What is known of a destination that failed: whether it is down, and whose failures are in doubt.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::BatchId;
use super::keys::KeyId;
use crate::sink::Failure;
use crate::store::DestinationDown;
use crate::{Now, Timestamp};

/// A destination with failures since its last acknowledgement. One that works has none of these.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) name: Arc<str>,
    /// Keys that failed since the last success, as many as the breaker counts.
    pub(super) failing: BTreeSet<KeyId>,
    /// Heads whose failure counts against them only if the destination turns out to be up.
    pub(super) suspects: Vec<Suspect>,
    /// The suspects were not alone when they failed, though those beside them may have ended without telling.
    pub(super) accompanied: bool,
    /// Set while the destination is taken for down.
    pub(super) outage: Option<Outage>,
    /// Heads in memory that wait for the end of the outage.
    pub(super) blocked: VecDeque<KeyId>,
    /// Heads in the parked table that do.
    pub(super) held: VecDeque<KeyId>,
}

/// A head whose failure may be the destination's.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) key: KeyId,
    pub(super) failure: Failure,
    /// The batch it failed in, if what was acknowledged of it proves that the destination was up.
    pub(super) beside: Option<BatchId>,
    /// Batches from this one on were sent after the failure was heard of.
    pub(super) since: BatchId,
}

impl Suspect {
    /// Whether an acknowledgement of this batch says that the destination was up when this failed.
    pub(super) fn is_told_by(&self, batch: BatchId) -> bool {
        self.since <= batch || self.beside == Some(batch)
    }
}

/// A destination taken for down.
#[derive(Debug)]
pub(super) struct Outage {
    /// Since when.
    pub(super) since: Timestamp,
    /// The last failure.
    pub(super) error: String,
    /// When to send one message to see whether it is back.
    pub(super) probe_at: Duration,
    /// The same moment, for people.
    pub(super) probe_time: Timestamp,
    /// Probes that failed.
    pub(super) probes: u32,
    /// One is under way.
    pub(super) probing: bool,
}

impl Outage {
    /// Plans the next probe.
    pub(super) fn probe_after(&mut self, now: Now, wait: Duration) {
        self.probe_at = now.elapsed + wait;
        self.probe_time = now.wall.after(wait);
    }
}

/// What the failures say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Too early to tell; others are on their way.
    Open,
    /// The message failed alone and there is nothing to compare it with: it counts.
    Alone,
    /// The destination is down: nothing counts.
    Down,
}

impl Destination {
    /// What is reported about it while it is down.
    pub(super) fn as_down(&self) -> Option<DestinationDown> {
        let outage = self.outage.as_ref()?;
        Some(DestinationDown::new(&self.name, outage.since, &outage.error, outage.probe_time))
    }

    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            failing: BTreeSet::new(),
            suspects: Vec::new(),
            accompanied: false,
            outage: None,
            blocked: VecDeque::new(),
            held: VecDeque::new(),
        }
    }

    /// Whether an event waits for the end of its outage.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.blocked.is_empty() || !self.held.is_empty()
    }

    /// A failure that may be the destination's.
    pub(super) fn suspect(&mut self, suspect: Suspect, breaker_keys: usize) {
        if self.failing.len() < breaker_keys {
            self.failing.insert(suspect.key);
        }
        self.suspects.push(suspect);
    }

    /// Judges the suspects. `others`: whether a message of another key is ready or in flight.
    pub(super) fn judge(&self, breaker_keys: usize, others: bool) -> Verdict {
        let others = others || self.is_waited_for();
        let keys = self.failing.len();
        if keys >= breaker_keys || (self.outage.is_some() && (keys > 1 || others)) {
            Verdict::Down
        } else if others {
            Verdict::Open
        } else if keys > 1 {
            Verdict::Down
        } else {
            Verdict::Alone
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(keys: u64) -> Destination {
        let mut destination = Destination::new("d".into());
        let suspect = |k| Suspect {
            key: KeyId(k),
            failure: Failure::new("no answer"),
            beside: None,
            since: BatchId(0),
        };
        (0..keys).for_each(|k| destination.suspect(suspect(k), 5));
        destination
    }

    #[test]
    fn a_message_that_fails_alone_counts() {
        assert_eq!(failing(1).judge(5, false), Verdict::Alone);
    }

    #[test]
    fn while_others_are_on_their_way_nothing_is_decided() {
        assert_eq!(failing(1).judge(5, true), Verdict::Open);
        assert_eq!(failing(4).judge(5, true), Verdict::Open);
    }

    #[test]
    fn when_all_there_is_fails_the_destination_is_down() {
        assert_eq!(failing(2).judge(5, false), Verdict::Down);
    }

    #[test]
    fn enough_failing_keys_are_an_outage_whatever_else_is_under_way() {
        assert_eq!(failing(5).judge(5, true), Verdict::Down);
    }
}
