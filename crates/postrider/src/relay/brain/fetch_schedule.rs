//! The schedule of retries and of parked events that are read back into memory.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use super::keys::KeyId;
use crate::Position;

/// Heads of queues that will be retried or read back into memory.
#[derive(Debug, Default)]
pub(super) struct FetchSchedule {
    /// When heads may be retried. An entry whose head has changed in the meantime is skipped.
    retries: BinaryHeap<Reverse<(Duration, KeyId)>>,
    /// Keys whose parked head will be read back.
    to_fetch: VecDeque<KeyId>,
    /// Events that are being read.
    fetching: Vec<(KeyId, Position)>,
    /// Queues that wait until the outbox has been read up to their head.
    awaiting_reader: BTreeSet<(Position, KeyId)>,
}

impl FetchSchedule {
    pub(super) fn retry_at(&mut self, at: Duration, key: KeyId) {
        self.retries.push(Reverse((at, key)));
    }

    pub(super) fn next_retry_at(&self) -> Option<Duration> {
        self.retries.peek().map(|Reverse((at, _))| *at)
    }

    /// A retry that is due, with its time.
    pub(super) fn pop_retry(&mut self, now: Duration) -> Option<(Duration, KeyId)> {
        self.next_retry_at().filter(|at| *at <= now)?;
        self.retries.pop().map(|Reverse(retry)| retry)
    }

    /// Keys with a scheduled retry, including outdated ones.
    pub(super) fn retrying(&self) -> impl Iterator<Item = KeyId> {
        self.retries.iter().map(|Reverse((_, key))| *key)
    }

    pub(super) fn fetch_now(&mut self, key: KeyId) {
        self.to_fetch.push_back(key);
    }

    /// Schedules the head at this position for when the outbox has been read up to it.
    pub(super) fn fetch_once_read_to(&mut self, position: Position, key: KeyId) {
        self.awaiting_reader.insert((position, key));
    }

    /// A key whose head waited until the outbox was read up to it, and now is.
    pub(super) fn pop_reached(&mut self, has_passed: impl Fn(Position) -> bool) -> Option<KeyId> {
        self.awaiting_reader.first().filter(|(position, _)| has_passed(*position))?;
        self.awaiting_reader.pop_first().map(|(_, key)| key)
    }

    pub(super) fn has_awaiting_reader(&self) -> bool {
        !self.awaiting_reader.is_empty()
    }

    /// Whether an event is scheduled and no fetch is in progress.
    pub(super) fn may_fetch(&self) -> bool {
        !self.to_fetch.is_empty() && self.fetching.is_empty()
    }

    pub(super) fn pop_to_fetch(&mut self) -> Option<KeyId> {
        self.to_fetch.pop_front()
    }

    pub(super) fn start_fetch(&mut self, key: KeyId, positions: impl Iterator<Item = Position>) {
        self.fetching.extend(positions.map(|position| (key, position)));
    }

    /// Events that are being read.
    pub(super) fn fetching(&self) -> &[(KeyId, Position)] {
        &self.fetching
    }

    /// Ends the fetch in progress and returns what it requested.
    pub(super) fn take_fetching(&mut self) -> Vec<(KeyId, Position)> {
        std::mem::take(&mut self.fetching)
    }

    /// Number of keys and events that are scheduled or being read.
    pub(super) fn count(&self) -> usize {
        self.to_fetch.len() + self.fetching.len() + self.awaiting_reader.len()
    }

    /// Whether nothing is scheduled, being read or waiting for a retry.
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0 && self.retries.is_empty()
    }
}
