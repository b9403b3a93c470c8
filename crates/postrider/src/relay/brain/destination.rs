//! What is known of a destination that failed: whether it is down, and whose failures are in record_provisional_failure.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::BatchId;
use super::keys::{DestinationId, IdMap, KeyId};
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
    /// Other messages were in flight when the suspects failed, although their outcomes may prove nothing.
    pub(super) others_in_flight: bool,
    /// Set while the destination is considered down.
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
    /// Batches from this one on were sent after the failure was known.
    pub(super) since: BatchId,
}

impl Suspect {
    /// Whether an acknowledgement of this batch proves that the destination was up when this failed.
    pub(super) fn is_disproved_by(&self, batch: BatchId) -> bool {
        self.since <= batch || self.beside == Some(batch)
    }
}

/// A destination that is considered down.
#[derive(Debug)]
pub(super) struct Outage {
    /// Since when.
    pub(super) since: Timestamp,
    /// The last failure.
    pub(super) error: String,
    /// When to send one message to see whether it is back.
    pub(super) probe_at: Duration,
    /// The same time, for operators.
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

/// All destinations that were seen.
#[derive(Debug)]
pub(super) struct Destinations {
    /// Those with failures. Empty while all goes well.
    failing: IdMap<DestinationId, Destination>,
    /// The first that was seen.
    first: Option<DestinationId>,
    are_multiple: bool,
}

impl Destinations {
    pub(super) fn new(are_multiple: bool) -> Self {
        Self { failing: IdMap::default(), first: None, are_multiple }
    }

    /// An event goes there.
    pub(super) fn record_seen(&mut self, id: DestinationId) {
        self.are_multiple |= *self.first.get_or_insert(id) != id;
    }

    /// More than one was seen, or is to be expected.
    pub(super) fn are_multiple(&self) -> bool {
        self.are_multiple
    }

    /// None has failures.
    pub(super) fn is_empty(&self) -> bool {
        self.failing.is_empty()
    }

    /// What is known of a destination, from its first failure on.
    pub(super) fn failing(&mut self, id: DestinationId, name: &Arc<str>) -> &mut Destination {
        self.failing.entry(id).or_insert_with(|| Destination::new(name.clone()))
    }

    pub(super) fn get_mut(&mut self, id: DestinationId) -> Option<&mut Destination> {
        self.failing.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: DestinationId) -> Option<Destination> {
        self.failing.remove(&id)
    }

    /// Those with failures, in the order of their numbers: a step depends on nothing else.
    pub(super) fn ids(&self) -> Vec<DestinationId> {
        sorted(self.failing.keys().copied())
    }

    /// Those with failures that are in record_provisional_failure.
    pub(super) fn with_suspects(&self) -> Vec<DestinationId> {
        sorted(self.failing.iter().filter(|(_, of)| !of.suspects.is_empty()).map(|(id, _)| *id))
    }

    /// A message waits for the end of an outage.
    pub(super) fn has_any_waiting(&self) -> bool {
        self.failing.values().any(|of| of.outage.is_some() && of.has_waiting())
    }

    /// Which to probe next, and when.
    pub(super) fn next_probe(&self) -> Option<(DestinationId, Duration)> {
        let probes = self.failing.iter().filter_map(|(id, destination)| {
            let outage = destination.outage.as_ref().filter(|outage| !outage.probing)?;
            destination.has_waiting().then_some((outage.probe_at, *id))
        });
        probes.min().map(|(at, id)| (id, at))
    }

    /// Those that are down, for people.
    pub(super) fn down(&self) -> impl Iterator<Item = DestinationDown> {
        self.failing.values().filter_map(Destination::as_down)
    }

    pub(super) fn down_count(&self) -> usize {
        self.failing.values().filter(|of| of.outage.is_some()).count()
    }
}

fn sorted(ids: impl Iterator<Item = DestinationId>) -> Vec<DestinationId> {
    let mut ids: Vec<DestinationId> = ids.collect();
    ids.sort_unstable();
    ids
}

/// What the failures say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Diagnosis {
    /// Not decided yet; other messages are in flight.
    Undecided,
    /// The message failed alone and there is nothing to compare it with: it counts.
    MessageFailed,
    /// The destination is down: nothing counts.
    DestinationDown,
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
            others_in_flight: false,
            outage: None,
            blocked: VecDeque::new(),
            held: VecDeque::new(),
        }
    }

    /// Whether an event waits for the end of its outage.
    pub(super) fn has_waiting(&self) -> bool {
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
    pub(super) fn diagnose(&self, breaker_keys: usize, others: bool) -> Diagnosis {
        let others = others || self.has_waiting();
        let keys = self.failing.len();
        if keys >= breaker_keys || (self.outage.is_some() && (keys > 1 || others)) {
            Diagnosis::DestinationDown
        } else if others {
            Diagnosis::Undecided
        } else if keys > 1 {
            Diagnosis::DestinationDown
        } else {
            Diagnosis::MessageFailed
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
        assert_eq!(failing(1).diagnose(5, false), Diagnosis::MessageFailed);
    }

    #[test]
    fn nothing_is_decided_while_other_messages_are_in_flight() {
        assert_eq!(failing(1).diagnose(5, true), Diagnosis::Undecided);
        assert_eq!(failing(4).diagnose(5, true), Diagnosis::Undecided);
    }

    #[test]
    fn a_destination_is_down_if_all_messages_fail() {
        assert_eq!(failing(2).diagnose(5, false), Diagnosis::DestinationDown);
    }

    #[test]
    fn enough_failing_keys_are_an_outage_even_with_other_messages_in_flight() {
        assert_eq!(failing(5).diagnose(5, true), Diagnosis::DestinationDown);
    }
}
