//! Parked events that are to come back: when, which, and what was asked for.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use super::keys::KeyId;
use crate::Position;

/// Heads of queues that come back into memory, or to the sink, later.
#[derive(Debug, Default)]
pub(super) struct Recall {
    /// When parked and resting heads may be tried again. Outdated entries are skipped.
    retries: BinaryHeap<Reverse<(Duration, KeyId)>>,
    /// Keys whose parked head is wanted in memory.
    wanted: VecDeque<KeyId>,
    /// What is being read.
    fetching: Vec<(KeyId, Position)>,
    /// Queues that wait until the outbox is read up to their head.
    unread: BTreeSet<(Position, KeyId)>,
}

impl Recall {
    pub(super) fn retry_at(&mut self, at: Duration, key: KeyId) {
        self.retries.push(Reverse((at, key)));
    }

    pub(super) fn next_retry_at(&self) -> Option<Duration> {
        self.retries.peek().map(|Reverse((at, _))| *at)
    }

    /// A retry whose time has come, with that time.
    pub(super) fn pop_retry(&mut self, now: Duration) -> Option<(Duration, KeyId)> {
        self.next_retry_at().filter(|at| *at <= now)?;
        self.retries.pop().map(|Reverse(retry)| retry)
    }

    /// Keys that wait for their time, outdated ones included.
    pub(super) fn retrying(&self) -> impl Iterator<Item = KeyId> {
        self.retries.iter().map(|Reverse((_, key))| *key)
    }

    pub(super) fn want(&mut self, key: KeyId) {
        self.wanted.push_back(key);
    }

    /// The head at this position is wanted once the outbox is read up to it.
    pub(super) fn want_after(&mut self, position: Position, key: KeyId) {
        self.unread.insert((position, key));
    }

    /// A key whose head waited for the outbox to be read up to it, and it is.
    pub(super) fn pop_read(&mut self, has_passed: impl Fn(Position) -> bool) -> Option<KeyId> {
        self.unread.first().filter(|(position, _)| has_passed(*position))?;
        self.unread.pop_first().map(|(_, key)| key)
    }

    pub(super) fn waits_for_reader(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Something is wanted and nothing is being read.
    pub(super) fn may_fetch(&self) -> bool {
        !self.wanted.is_empty() && self.fetching.is_empty()
    }

    pub(super) fn pop_wanted(&mut self) -> Option<KeyId> {
        self.wanted.pop_front()
    }

    pub(super) fn fetch(&mut self, key: KeyId, positions: impl Iterator<Item = Position>) {
        self.fetching.extend(positions.map(|position| (key, position)));
    }

    /// What is being read.
    pub(super) fn fetching(&self) -> &[(KeyId, Position)] {
        &self.fetching
    }

    /// What was being read; it is no longer.
    pub(super) fn take_fetching(&mut self) -> Vec<(KeyId, Position)> {
        std::mem::take(&mut self.fetching)
    }

    /// Keys on their way back into memory.
    pub(super) fn count(&self) -> usize {
        self.wanted.len() + self.fetching.len() + self.unread.len()
    }

    /// Nothing comes back, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0 && self.retries.is_empty()
    }
}
