//! What is to be recorded: progress and parked rows since the last flush, and the window they open.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::keys::KeyId;
use crate::Position;
use crate::ledger::{Intervals, Mark, ParkedRow, Progress, Trial};
use crate::relay::Policy;
use crate::store::{Epoch, Settlement};

/// The subscription's state as this relay knows it, and how much of that the database does not know yet.
///
/// A flush is a cumulative snapshot and only one is under way at a time, so what the database holds is
/// always a past state of this relay: the relay that takes over replays from one point, in order.
#[derive(Debug)]
pub(super) struct ProgressBuffer {
    done: Intervals,
    highest: Option<Mark>,
    trial: Option<Trial>,
    park: BTreeMap<Position, ParkedRow>,
    unpark: BTreeSet<Position>,
    /// Rows in the parked table, final ones included, as they will be after the next flush.
    parked_count: u64,
    /// Acknowledged and not yet recorded; part of the window.
    unsettled: usize,
    /// Since when there is something to record.
    dirty_since: Option<Duration>,
    flushing: Option<Flushing>,
    /// After a flush that did not happen: no other before this moment.
    not_before: Duration,
    /// Keys whose head was given up since the last flush began, and by it.
    ended: Vec<KeyId>,
    ended_in_flush: Vec<KeyId>,
    /// Something was settled while leading.
    has_settled: bool,
    /// Nothing is published before something was settled: the last owner could not settle anything.
    must_prove: bool,
}

/// A flush under way: what comes back if it did not happen.
#[derive(Debug)]
struct Flushing {
    unsettled: usize,
    park: Vec<ParkedRow>,
    unpark: Vec<Position>,
}

impl ProgressBuffer {
    pub(super) fn open(progress: Progress, parked_count: u64) -> Self {
        Self {
            done: progress.done,
            highest: progress.highest,
            trial: progress.trial,
            park: BTreeMap::new(),
            unpark: BTreeSet::new(),
            parked_count,
            unsettled: 0,
            dirty_since: None,
            flushing: None,
            not_before: Duration::ZERO,
            ended: Vec::new(),
            ended_in_flush: Vec::new(),
            has_settled: false,
            must_prove: false,
        }
    }

    pub(super) fn done(&self) -> &Intervals {
        &self.done
    }

    pub(super) fn parked_count(&self) -> u64 {
        self.parked_count
    }

    /// Acknowledged events that the database does not know of.
    pub(super) fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Something was settled while leading.
    pub(super) fn has_settled(&self) -> bool {
        self.has_settled
    }

    /// Nothing may be published before something was settled.
    pub(super) fn must_prove(&self) -> bool {
        self.must_prove
    }

    /// Has the state settled as it is before anything is published. A database that takes reads and no
    /// writes would otherwise have the same events published by one owner after the other.
    pub(super) fn prove_settling(&mut self, now: Duration) {
        self.must_prove = true;
        self.touch(now);
    }

    /// The head of a key was given up. Its queue goes on once that is settled.
    pub(super) fn end(&mut self, key: KeyId) {
        self.ended.push(key);
    }

    /// Keys whose head was given up, and that is not settled.
    pub(super) fn ended(&self) -> impl Iterator<Item = KeyId> {
        self.ended.iter().chain(&self.ended_in_flush).copied()
    }

    /// Parked rows the database does not know of.
    pub(super) fn unwritten_rows(&self) -> usize {
        self.park.len() + self.flushing.as_ref().map_or(0, |f| f.park.len())
    }

    /// Nothing to record and nothing being recorded.
    pub(super) fn is_clean(&self) -> bool {
        self.dirty_since.is_none() && self.flushing.is_none()
    }

    pub(super) fn see(&mut self, mark: Mark) {
        if self.highest.is_none_or(|highest| highest.position < mark.position) {
            self.highest = Some(mark);
        }
    }

    /// An event that needs nothing more, or a position that will never hold one.
    pub(super) fn finish(&mut self, start: Position, end: Position, now: Duration) {
        self.done.insert_range(start, end);
        self.touch(now);
    }

    /// An event that the sink acknowledged.
    pub(super) fn acknowledge(&mut self, position: Position, parked: bool, now: Duration) {
        self.unsettled += 1;
        if parked {
            self.unpark(position, now);
        } else {
            self.finish(position, position, now);
        }
    }

    /// An event that left the straight way, or changed its state beside it.
    pub(super) fn park(&mut self, mut row: ParkedRow, is_new: bool, now: Duration) {
        self.parked_count += u64::from(is_new);
        self.done.insert(row.position);
        self.unpark.remove(&row.position);
        if let Some(unwritten) = self.park.remove(&row.position) {
            row.keep_names_of(unwritten);
        }
        self.park.insert(row.position, row);
        self.touch(now);
    }

    /// A parked event that is done with.
    pub(super) fn unpark(&mut self, position: Position, now: Duration) {
        self.parked_count = self.parked_count.saturating_sub(1);
        self.park.remove(&position);
        self.unpark.insert(position);
        self.touch(now);
    }

    /// A batch about to be tried, or the end of trying.
    pub(super) fn set_trial(&mut self, trial: Option<Trial>, now: Duration) {
        self.trial = trial;
        self.touch(now);
    }

    /// The last owner left in good order; what it tried before does not matter.
    pub(super) fn forget_trial(&mut self) {
        self.trial = None;
    }

    /// There is something to record.
    fn touch(&mut self, now: Duration) {
        self.dirty_since.get_or_insert(now);
    }

    /// When the next flush is due, if there will be one; at once if a caller waits for it.
    pub(super) fn flush_due(&self, policy: &Policy, urgent: bool) -> Option<Duration> {
        let since = self.dirty_since.filter(|_| self.flushing.is_none())?;
        let at_once = urgent || self.must_prove || self.unsettled >= policy.flush_events;
        let wait = if at_once { Duration::ZERO } else { policy.flush_interval };
        Some((since + wait).max(self.not_before))
    }

    /// Starts a flush of everything known now. Call only when none is under way.
    pub(super) fn flush(&mut self, subscription: &str, epoch: Epoch) -> Settlement {
        let park: Vec<ParkedRow> = std::mem::take(&mut self.park).into_values().collect();
        let unpark: Vec<Position> = std::mem::take(&mut self.unpark).into_iter().collect();
        self.dirty_since = None;
        self.ended_in_flush.append(&mut self.ended);
        self.flushing =
            Some(Flushing { unsettled: self.unsettled, park: park.clone(), unpark: unpark.clone() });
        Settlement {
            subscription: subscription.to_owned(),
            epoch,
            done: self.done.clone(),
            highest: self.highest,
            trial: self.trial.clone(),
            park,
            unpark,
        }
    }

    /// The flush is recorded. Answers the keys whose head it gave up.
    pub(super) fn flushed(&mut self) -> Vec<KeyId> {
        self.has_settled = true;
        self.must_prove = false;
        if let Some(flushing) = self.flushing.take() {
            self.unsettled -= flushing.unsettled;
        }
        std::mem::take(&mut self.ended_in_flush)
    }

    /// The flush did not happen: everything in it is to be recorded again, under what came since.
    pub(super) fn flush_failed(&mut self, now: Duration, policy: &Policy) {
        self.ended.append(&mut self.ended_in_flush);
        let Some(flushing) = self.flushing.take() else { return };
        for row in flushing.park {
            if self.unpark.contains(&row.position) {
                continue;
            }
            match self.park.get_mut(&row.position) {
                Some(newer) => newer.keep_names_of(row),
                None => _ = self.park.insert(row.position, row),
            }
        }
        for position in flushing.unpark {
            if !self.park.contains_key(&position) {
                self.unpark.insert(position);
            }
        }
        self.dirty_since = Some(now);
        self.not_before = now + policy.flush_interval;
    }
}
