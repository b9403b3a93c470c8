//! The state of a destination with failures: whether it is down, and which failures are not diagnosed yet.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::BatchId;
use super::keys::{DestinationId, IdMap, KeyId};
use crate::sink::Failure;
use crate::store::DestinationDown;
use crate::{Now, Timestamp};

/// A destination with failures since its last acknowledgement.
#[derive(Debug)]
pub(super) struct Destination {
    pub(super) name: Arc<str>,
    /// Keys that failed since the last success, up to the number that the breaker needs.
    pub(super) failing: BTreeSet<KeyId>,
    /// Heads whose failure counts as an attempt only if the destination proves to be up.
    pub(super) suspects: Vec<Suspect>,
    /// Other messages were in flight when the suspects failed, even if their outcomes prove nothing.
    pub(super) others_in_flight: bool,
    /// Set while the destination is considered down.
    pub(super) outage: Option<Outage>,
    /// Heads in memory that wait for the end of the outage.
    pub(super) blocked: VecDeque<KeyId>,
    /// Parked heads that wait for the end of the outage.
    pub(super) held: VecDeque<KeyId>,
}

/// A head whose failure may be caused by the destination.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) key: KeyId,
    pub(super) failure: Failure,
    /// The batch in which it failed, if an acknowledgement of that batch proves that the destination was up.
    pub(super) same_batch: Option<BatchId>,
    /// This batch and later ones were sent after the failure was known.
    pub(super) since: BatchId,
}

impl Suspect {
    /// Whether an acknowledgement of this batch proves that the destination was up when this failed.
    pub(super) fn is_disproved_by(&self, batch: BatchId) -> bool {
        self.since <= batch || self.same_batch == Some(batch)
    }
}

/// A destination that is considered down.
#[derive(Debug)]
pub(super) struct Outage {
    /// Since when.
    pub(super) since: Timestamp,
    /// The last failure.
    pub(super) error: String,
    /// When to send one message to find out whether the destination is up again.
    pub(super) probe_at: Duration,
    /// The same time, for operators.
    pub(super) probe_time: Timestamp,
    /// Number of failed probes.
    pub(super) probes: u32,
    /// A probe is in progress.
    pub(super) probing: bool,
}

impl Outage {
    /// Schedules the next probe.
    pub(super) fn probe_after(&mut self, now: Now, wait: Duration) {
        self.probe_at = now.elapsed + wait;
        self.probe_time = now.wall.after(wait);
    }
}

/// All destinations of the subscription.
#[derive(Debug)]
pub(super) struct FailingDestinations {
    /// Those with failures; usually empty.
    failing: IdMap<DestinationId, Destination>,
    /// The first that an event went to.
    first: Option<DestinationId>,
    are_multiple: bool,
}

impl FailingDestinations {
    pub(super) fn new(are_multiple: bool) -> Self {
        Self { failing: IdMap::default(), first: None, are_multiple }
    }

    /// An event goes there.
    pub(super) fn record_seen(&mut self, id: DestinationId) {
        self.are_multiple |= *self.first.get_or_insert(id) != id;
    }

    /// There is more than one, or the routing rules allow more than one.
    pub(super) fn are_multiple(&self) -> bool {
        self.are_multiple
    }

    /// No destination has failures.
    pub(super) fn is_empty(&self) -> bool {
        self.failing.is_empty()
    }

    /// The state of a destination, created at its first failure.
    pub(super) fn failing(&mut self, id: DestinationId, name: &Arc<str>) -> &mut Destination {
        self.failing.entry(id).or_insert_with(|| Destination::new(name.clone()))
    }

    pub(super) fn get_mut(&mut self, id: DestinationId) -> Option<&mut Destination> {
        self.failing.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: DestinationId) -> Option<Destination> {
        self.failing.remove(&id)
    }

    /// Those with failures, in the order of their ids, so that a step is deterministic.
    pub(super) fn ids(&self) -> Vec<DestinationId> {
        sorted(self.failing.keys().copied())
    }

    /// Those with failures that are not diagnosed yet.
    pub(super) fn with_suspects(&self) -> Vec<DestinationId> {
        sorted(self.failing.iter().filter(|(_, of)| !of.suspects.is_empty()).map(|(id, _)| *id))
    }

    /// A message waits for the end of an outage.
    pub(super) fn has_any_waiting(&self) -> bool {
        self.failing.values().any(|of| of.outage.is_some() && of.has_waiting())
    }

    /// The destination to probe next, and when.
    pub(super) fn next_probe(&self) -> Option<(DestinationId, Duration)> {
        let probes = self.failing.iter().filter_map(|(id, destination)| {
            let outage = destination.outage.as_ref().filter(|outage| !outage.probing)?;
            destination.has_waiting().then_some((outage.probe_at, *id))
        });
        probes.min().map(|(at, id)| (id, at))
    }

    /// Those that are down, for operators.
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

/// The cause of the failures of a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Diagnosis {
    /// Not decided yet, because other messages are in flight.
    Undecided,
    /// A message failed alone and there is nothing to compare it with: its attempt counts.
    MessageFailed,
    /// The destination is down: no attempt counts.
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

    /// Adds a failure that may be caused by the destination.
    pub(super) fn suspect(&mut self, suspect: Suspect, breaker_keys: usize) {
        if self.failing.len() < breaker_keys {
            self.failing.insert(suspect.key);
        }
        self.suspects.push(suspect);
    }

    /// Diagnoses the suspects. `others`: whether a message of another key is ready or in flight.
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
            same_batch: None,
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
