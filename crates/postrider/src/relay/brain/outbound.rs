//! Keys whose head may be published, and the batches at the sink.

use std::collections::VecDeque;
use std::time::Duration;

use super::key_queues::{Body, Queued};
use super::keys::{DestinationId, IdMap, KeyId};
use super::{BatchId, Disposition, Routed};
use crate::Position;
use crate::sink::Outcome;

/// A batch on its way to the sink.
#[derive(Debug, Default)]
pub(super) struct OutboundBatch {
    /// Its messages, in order, until it is sent.
    outgoing: Vec<Routed>,
    /// Keys and positions of its messages, in order.
    pub(super) messages: Vec<(KeyId, Position)>,
    /// Which of them were answered before the others, by their index. Unallocated if none was.
    answered_early: Vec<bool>,
    /// The destination that this batch probes, if it is a probe.
    pub(super) probe: Option<DestinationId>,
}

impl OutboundBatch {
    pub(super) fn with_capacity(events: usize) -> Self {
        let (outgoing, messages) = (Vec::with_capacity(events), Vec::with_capacity(events));
        Self { outgoing, messages, ..Self::default() }
    }

    /// A batch that probes whether this destination is up again.
    pub(super) fn probe(id: DestinationId) -> Self {
        Self { probe: Some(id), ..Self::default() }
    }

    /// Adds an event if it is in memory.
    pub(super) fn push(&mut self, key: KeyId, queued: &Queued) {
        if let Some(Body { destination, name, delivery, event }) = &queued.body {
            let disposition =
                Disposition::Deliver { id: *destination, name: name.clone(), delivery: delivery.clone() };
            let Queued { position, attempts, redelivery, .. } = *queued;
            let event = event.clone();
            self.outgoing.push(Routed { position, key, disposition, attempts, redelivery, event });
            self.messages.push((key, position));
        }
    }

    /// Marks a message as answered. Returns it, unless there is none at this index or it was answered before.
    fn answer_early(&mut self, index: usize) -> Option<(KeyId, Position)> {
        let message = *self.messages.get(index)?;
        self.answered_early.resize(self.messages.len(), false);
        let answered = self.answered_early.get_mut(index)?;
        (!std::mem::replace(answered, true)).then_some(message)
    }

    /// Keys of the messages without an answer.
    pub(super) fn unanswered_keys(&self) -> impl Iterator<Item = KeyId> {
        let unanswered = self.messages.iter().enumerate().filter(|(index, _)| !self.is_answered(*index));
        unanswered.map(|(_, (key, _))| *key)
    }

    /// Whether some message was answered before the others.
    pub(super) fn has_early_answers(&self) -> bool {
        !self.answered_early.is_empty()
    }

    /// Whether the message at this index was answered before the others.
    pub(super) fn is_answered(&self, index: usize) -> bool {
        self.answered_early.get(index) == Some(&true)
    }
}

/// The ready queue, and the batches at the sink.
#[derive(Debug)]
pub(super) struct Outbound {
    /// Keys whose head may be published, in the order in which they became ready.
    ready: VecDeque<KeyId>,
    /// Since when the first of them waits.
    ready_since: Duration,
    batches: IdMap<BatchId, OutboundBatch>,
    next_batch: u64,
    /// Messages at the sink. Together with unsettled events they are limited by the window.
    in_flight: usize,
    /// Messages acknowledged while leading.
    acknowledged: u64,
}

impl Outbound {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            ready: VecDeque::new(),
            ready_since: now,
            batches: IdMap::default(),
            next_batch: 0,
            in_flight: 0,
            acknowledged: 0,
        }
    }

    /// The head of a key may be published.
    pub(super) fn push_ready(&mut self, key: KeyId, now: Duration) {
        if self.ready.is_empty() {
            self.ready_since = now;
        }
        self.ready.push_back(key);
    }

    pub(super) fn pop_ready(&mut self) -> Option<KeyId> {
        self.ready.pop_front()
    }

    /// Puts back a key that was popped and not sent.
    pub(super) fn put_back(&mut self, key: KeyId) {
        self.ready.push_front(key);
    }

    /// A batch was filled: the linger time of the remaining keys starts now.
    pub(super) fn restart_linger(&mut self, now: Duration) {
        self.ready_since = now;
    }

    pub(super) fn ready_since(&self) -> Duration {
        self.ready_since
    }

    pub(super) fn ready_count(&self) -> usize {
        self.ready.len()
    }

    /// Keys that are ready or at the sink.
    pub(super) fn keys(&self) -> impl Iterator<Item = KeyId> {
        let at_sink = self.batches.values().flat_map(OutboundBatch::unanswered_keys);
        self.ready.iter().copied().chain(at_sink)
    }

    pub(super) fn batch_count(&self) -> usize {
        self.batches.len()
    }

    /// Messages at the sink.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The id that the next batch will have.
    pub(super) fn next_batch(&self) -> BatchId {
        BatchId(self.next_batch)
    }

    /// Registers a batch as sent. Returns its id and its messages.
    pub(super) fn send(&mut self, mut batch: OutboundBatch) -> (BatchId, Vec<Routed>) {
        let id = self.next_batch();
        self.next_batch += 1;
        self.in_flight += batch.messages.len();
        let outgoing = std::mem::take(&mut batch.outgoing);
        self.batches.insert(id, batch);
        (id, outgoing)
    }

    /// The sink answered some messages of a batch before the others. Returns those that had no answer yet.
    pub(super) fn answered_early(
        &mut self,
        id: BatchId,
        outcomes: Vec<(usize, Outcome)>,
    ) -> Vec<((KeyId, Position), Outcome)> {
        let Some(batch) = self.batches.get_mut(&id) else { return Vec::new() };
        let new = |(index, outcome)| Some((batch.answer_early(index)?, outcome));
        let answered: Vec<_> = outcomes.into_iter().filter_map(new).collect();
        self.in_flight -= answered.len();
        answered
    }

    /// The sink answered.
    pub(super) fn answered(&mut self, id: BatchId) -> Option<OutboundBatch> {
        let batch = self.batches.remove(&id)?;
        self.in_flight -= batch.unanswered_keys().count();
        Some(batch)
    }

    /// Counts one acknowledged message.
    pub(super) fn count_acknowledged(&mut self) {
        self.acknowledged += 1;
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }
}
