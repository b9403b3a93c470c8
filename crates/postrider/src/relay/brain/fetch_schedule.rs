//! Parked events that are to be read back into memory: which, when, and which are being read.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

use super::keys::KeyId;
use crate::Position;

/// Heads of queues that are read back into memory, or retried, later.
#[derive(Debug, Default)]
pub(super) struct FetchSchedule {
    /// When parked and resting heads may be retried. An entry whose head has changed since is skipped.
    retries: BinaryHeap<Reverse<(Duration, KeyId)>>,
    /// Keys whose parked head is to be read back.
    to_fetch: VecDeque<KeyId>,
    /// What is being read.
    fetching: Vec<(KeyId, Position)>,
    /// Queues that wait until the outbox is read up to their head.
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

    /// Keys with a planned retry, outdated ones included.
    pub(super) fn retrying(&self) -> impl Iterator<Item = KeyId> {
        self.retries.iter().map(|Reverse((_, key))| *key)
    }

    pub(super) fn fetch_now(&mut self, key: KeyId) {
        self.to_fetch.push_back(key);
    }

    /// The head at this position is to be read back once the outbox is read up to it.
    pub(super) fn fetch_once_read_to(&mut self, position: Position, key: KeyId) {
        self.awaiting_reader.insert((position, key));
    }

    /// A key whose head waited until the outbox was read up to it, if it is by now.
    pub(super) fn pop_reached(&mut self, has_passed: impl Fn(Position) -> bool) -> Option<KeyId> {
        self.awaiting_reader.first().filter(|(position, _)| has_passed(*position))?;
        self.awaiting_reader.pop_first().map(|(_, key)| key)
    }

    pub(super) fn has_awaiting_reader(&self) -> bool {
        !self.awaiting_reader.is_empty()
    }

    /// Whether something is to be read back and nothing is being read.
    pub(super) fn may_fetch(&self) -> bool {
        !self.to_fetch.is_empty() && self.fetching.is_empty()
    }

    pub(super) fn pop_to_fetch(&mut self) -> Option<KeyId> {
        self.to_fetch.pop_front()
    }

    pub(super) fn start_fetch(&mut self, key: KeyId, positions: impl Iterator<Item = Position>) {
        self.fetching.extend(positions.map(|position| (key, position)));
    }

    /// What is being read.
    pub(super) fn fetching(&self) -> &[(KeyId, Position)] {
        &self.fetching
    }

    /// Takes what was being read, which has ended.
    pub(super) fn take_fetching(&mut self) -> Vec<(KeyId, Position)> {
        std::mem::take(&mut self.fetching)
    }

    /// How many keys and events are to be read back or being read.
    pub(super) fn count(&self) -> usize {
        self.to_fetch.len() + self.fetching.len() + self.awaiting_reader.len()
    }

    /// Whether nothing is to be read back or retried, now or later.
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0 && self.retries.is_empty()
    }
}
