//! Messages that had no delivery report when their publish call ended.
//!
//! The client keeps them and tries again until the broker answers: only the client that sent a message can send it again
//! without writing it twice or out of order. The relay publishes them again too, and then waits for the same report.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postrider::Position;
use postrider::sink::Message;
use tokio::time::Instant;

use super::delivery::{Deliveries, Delivery};
use super::renewable::Generation;

/// How long a report is kept that is not asked for, because its event was given up or discarded.
const REPORT_MAX: Duration = Duration::from_secs(600);

#[derive(Default)]
pub(super) struct PendingMessages {
    entries: Mutex<HashMap<MessageId, PendingMessage>>,
}

/// A message: an event may go to several topics.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MessageId {
    position: Position,
    event: [u8; 16],
    topic: String,
}

/// Where the delivery report of a message will be.
#[derive(Clone)]
pub(super) struct PendingMessage {
    deliveries: Arc<Deliveries>,
    at: usize,
    /// Keeps the client.
    pub(super) generation: Arc<Generation>,
    since: Instant,
}

impl PendingMessage {
    pub(super) fn delivery(&self) -> Option<Delivery> {
        self.deliveries.get(self.at)
    }
}

impl PendingMessages {
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    pub(super) fn keep(
        &self,
        message: &Message,
        topic: &str,
        deliveries: &Arc<Deliveries>,
        at: usize,
        generation: &Arc<Generation>,
    ) {
        let pending = PendingMessage {
            deliveries: deliveries.clone(),
            at,
            generation: generation.clone(),
            since: Instant::now(),
        };
        self.lock().insert(id(message, topic), pending);
    }

    /// Takes the message out, if the client still has it or has its report. A message that an operator sends again is a
    /// new one.
    pub(super) fn take(&self, message: &Message, topic: &str) -> Option<PendingMessage> {
        let found = self.lock().remove(&id(message, topic));
        found.filter(|_| message.redelivery.is_none())
    }

    pub(super) fn put_back(&self, message: &Message, topic: &str, pending: PendingMessage) {
        self.lock().insert(id(message, topic), pending);
    }

    /// Removes old reports.
    pub(super) fn prune(&self) {
        self.lock().retain(|_, pending| pending.delivery().is_none() || pending.since.elapsed() < REPORT_MAX);
    }

    /// Removes all, and fails those that have no report. Returns the clients that had some.
    pub(super) fn give_up(&self) -> Vec<Arc<Generation>> {
        let mut generations: Vec<Arc<Generation>> = Vec::new();
        for (_, pending) in self.lock().drain() {
            let is_known = generations.iter().any(|known| Arc::ptr_eq(known, &pending.generation));
            if pending.delivery().is_none() && !is_known {
                generations.push(pending.generation);
            }
        }
        generations.iter().for_each(|generation| generation.purge());
        generations
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<MessageId, PendingMessage>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn id(message: &Message, topic: &str) -> MessageId {
    MessageId { position: message.position, event: *message.event.id.as_bytes(), topic: topic.to_owned() }
}
