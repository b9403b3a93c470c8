//! Progress and parked rows that are not settled yet, and the window that limits them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::keys::KeyId;
use crate::Position;
use crate::ledger::{Intervals, LastSeen, ParkedRow, ParkedState, Progress, Trial};
use crate::relay::Policy;
use crate::store::{Epoch, Settlement};

/// The subscription's state as this relay knows it, and which part of it the database does not have yet.
///
/// A flush is a cumulative snapshot and only one is in progress at a time, so the database always holds a past state
/// of this relay. If the relay dies, the next owner continues from that state, in order; what was published after it
/// is published again.
#[derive(Debug)]
pub(super) struct ProgressBuffer {
    done: Intervals,
    highest: Option<LastSeen>,
    trial: Option<Trial>,
    park: BTreeMap<Position, ParkedRow>,
    unpark: BTreeSet<Position>,
    /// Rows in the parked table, final ones included, as they will be after the next flush.
    parked_count: u64,
    /// Those of them that are dead.
    dead: BTreeSet<Position>,
    /// Acknowledged and not yet settled; part of the window.
    unsettled: usize,
    /// Since when there is something to settle.
    dirty_since: Option<Duration>,
    flushing: Option<Flushing>,
    /// No flush before this time, after one that failed.
    not_before: Duration,
    /// Keys whose head was given up since the last flush started.
    given_up: Vec<KeyId>,
    /// Keys whose head is recorded as given up by the flush in progress.
    given_up_in_flush: Vec<KeyId>,
    /// Something was settled while leading.
    has_settled: bool,
    /// Nothing is published before something is settled, because the previous term could settle nothing.
    must_settle_first: bool,
}

/// A flush in progress: what must be flushed again if it fails.
#[derive(Debug)]
struct Flushing {
    unsettled: usize,
    park: Vec<ParkedRow>,
    unpark: Vec<Position>,
}

impl ProgressBuffer {
    pub(super) fn open(progress: Progress, parked_count: u64, dead: BTreeSet<Position>) -> Self {
        Self {
            done: progress.done,
            highest: progress.highest,
            trial: progress.trial,
            park: BTreeMap::new(),
            unpark: BTreeSet::new(),
            parked_count,
            dead,
            unsettled: 0,
            dirty_since: None,
            flushing: None,
            not_before: Duration::ZERO,
            given_up: Vec::new(),
            given_up_in_flush: Vec::new(),
            has_settled: false,
            must_settle_first: false,
        }
    }

    pub(super) fn done(&self) -> &Intervals {
        &self.done
    }

    pub(super) fn parked_count(&self) -> u64 {
        self.parked_count
    }

    pub(super) fn dead_count(&self) -> u64 {
        self.dead.len() as u64
    }

    /// Acknowledged events that are not settled.
    pub(super) fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Something was settled while leading.
    pub(super) fn has_settled(&self) -> bool {
        self.has_settled
    }

    /// Nothing may be published before something was settled.
    pub(super) fn must_settle_first(&self) -> bool {
        self.must_settle_first
    }

    /// Requires a settle of the current state before anything is published. Otherwise, if the database accepts reads
    /// but no writes, one owner after the other would publish the same events.
    pub(super) fn require_settle(&mut self, now: Duration) {
        self.must_settle_first = true;
        self.touch(now);
    }

    /// The head of a key was given up. Its queue continues once this is settled.
    pub(super) fn record_given_up(&mut self, key: KeyId) {
        self.given_up.push(key);
    }

    /// Keys whose head was given up and this is not settled yet.
    pub(super) fn given_up(&self) -> impl Iterator<Item = KeyId> {
        self.given_up.iter().chain(&self.given_up_in_flush).copied()
    }

    /// Parked rows that are not settled.
    pub(super) fn unwritten_rows(&self) -> usize {
        self.park.len() + self.flushing.as_ref().map_or(0, |f| f.park.len())
    }

    /// Whether there is nothing to settle and no flush in progress.
    pub(super) fn is_clean(&self) -> bool {
        self.dirty_since.is_none() && self.flushing.is_none()
    }

    pub(super) fn record_seen(&mut self, mark: LastSeen) {
        if self.highest.is_none_or(|highest| highest.position < mark.position) {
            self.highest = Some(mark);
        }
    }

    /// Positions that are done: their events need nothing more, or they are empty.
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

    /// A parked event counts no longer: its row in the outbox records its end.
    pub(super) fn uncount_parked(&mut self) {
        self.parked_count = self.parked_count.saturating_sub(1);
    }

    /// An event that is parked, or a parked event whose state changed.
    pub(super) fn park(&mut self, mut row: ParkedRow, is_new: bool, now: Duration) {
        self.parked_count += u64::from(is_new);
        match row.state {
            ParkedState::Dead => self.dead.insert(row.position),
            _ => self.dead.remove(&row.position),
        };
        self.done.insert(row.position);
        self.unpark.remove(&row.position);
        if let Some(unwritten) = self.park.remove(&row.position) {
            row.keep_names_of(unwritten);
        }
        self.park.insert(row.position, row);
        self.touch(now);
    }

    /// A parked event that is done.
    pub(super) fn unpark(&mut self, position: Position, now: Duration) {
        self.parked_count = self.parked_count.saturating_sub(1);
        self.dead.remove(&position);
        self.park.remove(&position);
        self.unpark.insert(position);
        self.touch(now);
    }

    /// Sets the batch that is about to be published on trial, or ends the trial.
    pub(super) fn set_trial(&mut self, trial: Option<Trial>, now: Duration) {
        self.trial = trial;
        self.touch(now);
    }

    /// The last owner released the lease cleanly, so no event of its trial crashed it.
    pub(super) fn forget_trial(&mut self) {
        self.trial = None;
    }

    /// There is something to settle.
    fn touch(&mut self, now: Duration) {
        self.dirty_since.get_or_insert(now);
    }

    /// When the next flush is due, if there is something to settle and no flush in progress. `urgent`: without delay.
    pub(super) fn flush_due(&self, policy: &Policy, urgent: bool) -> Option<Duration> {
        let since = self.dirty_since.filter(|_| self.flushing.is_none())?;
        let at_once = urgent || self.must_settle_first || self.unsettled >= policy.flush_events;
        let wait = if at_once { Duration::ZERO } else { policy.flush_interval };
        Some((since + wait).max(self.not_before))
    }

    /// Starts a flush of the current state. Call it only when none is in progress.
    pub(super) fn flush(&mut self, subscription: &str, epoch: Epoch) -> Settlement {
        let park: Vec<ParkedRow> = std::mem::take(&mut self.park).into_values().collect();
        let unpark: Vec<Position> = std::mem::take(&mut self.unpark).into_iter().collect();
        self.dirty_since = None;
        self.given_up_in_flush.append(&mut self.given_up);
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

    /// The flush is committed. Returns the keys whose head it recorded as given up.
    pub(super) fn flushed(&mut self) -> Vec<KeyId> {
        self.has_settled = true;
        self.must_settle_first = false;
        if let Some(flushing) = self.flushing.take() {
            self.unsettled -= flushing.unsettled;
        }
        std::mem::take(&mut self.given_up_in_flush)
    }

    /// The flush failed and changed nothing: its rows are added to the next one, unless newer ones have replaced them.
    pub(super) fn flush_failed(&mut self, now: Duration, policy: &Policy) {
        self.given_up.append(&mut self.given_up_in_flush);
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
