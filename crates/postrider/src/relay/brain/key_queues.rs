//! The queue of a key: its events in order. Only the head, the first event, has a state.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use super::keys::{DestinationId, IdMap, KeyId};
use crate::ledger::Redelivery;
use crate::route::Delivery;
use crate::{Event, Position};

/// An event in a queue.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) position: Position,
    /// Attempts that counted.
    pub(super) attempts: u32,
    /// The last attempt failed without being counted. If the next one fails too, it is counted.
    pub(super) failed_provisionally: bool,
    /// An operator asked to deliver it again.
    pub(super) redelivery: Option<Redelivery>,
    /// It has a row in the parked table, or will have with the next flush. Its position is done.
    pub(super) parked: bool,
    /// The event, while it is in memory. An event without a body is parked.
    pub(super) body: Option<Body>,
}

/// An event in memory and its destination.
#[derive(Debug, Clone)]
pub(super) struct Body {
    pub(super) destination: DestinationId,
    pub(super) name: Arc<str>,
    pub(super) delivery: Option<Arc<Delivery>>,
    pub(super) event: Arc<Event>,
}

impl Queued {
    /// An event that was never tried.
    pub(super) fn new(position: Position) -> Self {
        Self {
            position,
            attempts: 0,
            failed_provisionally: false,
            redelivery: None,
            parked: false,
            body: None,
        }
    }
}

impl Body {
    /// The text of the key that orders the event.
    pub(super) fn key(&self) -> Option<Cow<'_, str>> {
        Delivery::ordering_key(self.delivery.as_deref(), &self.event)
    }
}

/// The state of the first event of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadState {
    /// In the ready queue: to be published next.
    Ready,
    /// At the sink, with the following events that are in the same batch.
    InFlight,
    /// Failed; not decided yet whether the message or the destination is the cause.
    Suspect,
    /// Failed once without being counted; in memory, retried at this time.
    RetrySoon(Duration),
    /// Parked until this time.
    Backoff(Duration),
    /// Parked; scheduled to be read back into memory.
    ToFetch,
    /// Parked, and being read back.
    Fetching,
    /// In memory; its destination is down.
    Blocked,
    /// Parked; its destination is down.
    Held,
    /// Parked until an operator acts: dead with its key blocked, or unrouted.
    NeedsOperator,
    /// Parked; earlier events of its key may not have been read yet.
    AwaitsEarlier,
    /// Given up, but this is not settled yet. The next event must wait: if it were published now and the relay crashed,
    /// the next leader could deliver this event after it.
    GivenUp,
}

/// The events of one key that are not done.
#[derive(Debug)]
pub(super) struct KeyQueue {
    pub(super) head: Queued,
    /// Ascending by position. Stays unallocated for the many keys with one event.
    pub(super) rest: VecDeque<Queued>,
    pub(super) head_state: HeadState,
}

impl KeyQueue {
    pub(super) fn new(head: Queued, head_state: HeadState) -> Self {
        Self { head, rest: VecDeque::new(), head_state }
    }

    /// Whether a new event is parked behind the others instead of kept in memory: if the last event of the queue is
    /// parked, or the head waits for something that may take long.
    pub(super) fn parks_arrivals(&self) -> bool {
        let end_in_table = match self.rest.back() {
            Some(last) => last.body.is_none(),
            None => self.head.body.is_none() && self.head_state != HeadState::GivenUp,
        };
        end_in_table
            || matches!(self.head_state, HeadState::Backoff(_) | HeadState::Held | HeadState::NeedsOperator)
    }

    /// Whether the head waits for earlier events, and this position is one.
    pub(super) fn is_preceded_by(&self, position: Position) -> bool {
        self.head_state == HeadState::AwaitsEarlier && position < self.head.position
    }

    /// Makes an event the head, if the current head waits for earlier events; otherwise returns it.
    pub(super) fn precede(&mut self, queued: Queued, head_state: HeadState) -> Result<(), Queued> {
        if !self.is_preceded_by(queued.position) {
            return Err(queued);
        }
        self.rest.push_front(std::mem::replace(&mut self.head, queued));
        self.head_state = head_state;
        Ok(())
    }

    /// Inserts an event by position; nearly always at the end.
    pub(super) fn insert(&mut self, queued: Queued) {
        let at = self.rest.iter().rposition(|e| e.position < queued.position).map_or(0, |i| i + 1);
        self.rest.insert(at, queued);
    }
}

/// All queues.
#[derive(Debug, Default)]
pub(super) struct KeyQueues(IdMap<KeyId, KeyQueue>);

impl KeyQueues {
    pub(super) fn get(&self, key: KeyId) -> Option<&KeyQueue> {
        self.0.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: KeyId) -> Option<&mut KeyQueue> {
        self.0.get_mut(&key)
    }

    pub(super) fn slot(&mut self, key: KeyId) -> Entry<'_, KeyId, KeyQueue> {
        self.0.entry(key)
    }

    pub(super) fn head_state(&self, key: KeyId) -> Option<HeadState> {
        self.0.get(&key).map(|queue| queue.head_state)
    }

    pub(super) fn set_head_state(&mut self, key: KeyId, head_state: HeadState) {
        if let Some(queue) = self.0.get_mut(&key) {
            queue.head_state = head_state;
        }
    }

    /// Blocks the head because its destination is down. An earlier provisional failure no longer counts.
    pub(super) fn block(&mut self, key: KeyId) {
        if let Some(queue) = self.0.get_mut(&key) {
            queue.head_state = HeadState::Blocked;
            queue.head.failed_provisionally = false;
        }
    }

    /// Takes the head out; the next event of the key, if there is one, becomes the head.
    pub(super) fn pop(&mut self, key: KeyId) -> Option<Popped> {
        let Entry::Occupied(mut slot) = self.0.entry(key) else { return None };
        match slot.get_mut().rest.pop_front() {
            Some(next) => {
                Some(Popped { head: std::mem::replace(&mut slot.get_mut().head, next), more: true })
            }
            None => Some(Popped { head: slot.remove().head, more: false }),
        }
    }
}

/// A head taken out of its queue.
#[derive(Debug)]
pub(super) struct Popped {
    pub(super) head: Queued,
    /// Whether the queue has more events.
    pub(super) more: bool,
}
