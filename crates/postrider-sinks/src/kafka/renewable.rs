//! The current client of a sink without transactions. It is replaced after a fatal error, and when it is given up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{Producer as _, PurgeConfig};

use super::confirmed::ConfirmedPartitions;
use super::producer::{Client, Producer};

/// A client, with what it knows about its partitions.
pub(super) struct Generation {
    pub(super) producer: Producer,
    pub(super) confirmed: ConfirmedPartitions,
    batch_bytes: usize,
}

/// The property with the size of a batch, its default, and the least that makes sense.
const BATCH_BYTES: &str = "batch.size";
const BATCH_BYTES_DEFAULT: usize = 1_000_000;
const BATCH_BYTES_MIN: usize = 1_024;

impl Generation {
    pub(super) fn client(&self) -> Option<&Arc<Client>> {
        self.producer.client()
    }

    /// Whether it may be used for new messages.
    pub(super) fn is_usable(&self) -> bool {
        !self.producer.is_broken() && self.client().is_some_and(|client| !client.context().is_given_up())
    }

    /// After a fatal error: fails the messages that were not sent. Those that were sent still get their delivery report.
    pub(super) fn purge_queue(&self) {
        if let Some(client) = self.client() {
            client.purge(PurgeConfig::default().queue().non_blocking());
        }
    }

    /// Fails all messages. Those that were sent may have been written.
    pub(super) fn purge(&self) {
        if let Some(client) = self.client() {
            client.context().give_up();
            client.purge(PurgeConfig::default().queue().inflight().non_blocking());
        }
    }
}

pub(super) struct Renewable {
    settings: Mutex<ClientConfig>,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    generation: Option<Arc<Generation>>,
    /// The next client. A new client needs half a second until it can send, so the next one is created after the first
    /// fatal error.
    spare: Option<Arc<Generation>>,
}

impl Renewable {
    pub(super) fn new(settings: ClientConfig) -> Self {
        Self { settings: Mutex::new(settings), current: Mutex::default() }
    }

    /// The current client, or a new one if that had a fatal error.
    pub(super) fn get(&self) -> Result<Arc<Generation>, KafkaError> {
        let mut current = lock(&self.current);
        let is_first = current.generation.is_none();
        if let Some(generation) = current.generation.as_ref().filter(|generation| generation.is_usable()) {
            return Ok(generation.clone());
        }
        let spare = current.spare.take().filter(|spare| spare.is_usable());
        let next = spare.map_or_else(|| self.make(), Ok)?;
        current.generation = Some(next.clone());
        current.spare = if is_first { None } else { Some(self.make()?) };
        Ok(next)
    }

    fn make(&self) -> Result<Arc<Generation>, KafkaError> {
        let settings = lock(&self.settings);
        let batch_bytes = settings.get(BATCH_BYTES).and_then(|bytes| bytes.parse().ok());
        Ok(Arc::new(Generation {
            producer: Producer::make(&settings)?,
            confirmed: ConfirmedPartitions::default(),
            batch_bytes: batch_bytes.unwrap_or(BATCH_BYTES_DEFAULT),
        }))
    }

    /// The next client sends smaller batches: a topic refuses batches of this one. Once per client.
    pub(super) fn halve_batches(&self, generation: &Generation) {
        let half = (generation.batch_bytes / 2).max(BATCH_BYTES_MIN);
        let mut settings = lock(&self.settings);
        let next = settings.get(BATCH_BYTES).and_then(|bytes| bytes.parse().ok());
        if next.is_none_or(|next: usize| next > half) {
            settings.set(BATCH_BYTES, half.to_string());
            drop(settings);
            lock(&self.current).spare = None;
        }
    }

    /// Does not use this client for new messages any more.
    pub(super) fn forget(&self, generation: &Arc<Generation>) {
        let mut current = lock(&self.current);
        if current.generation.as_ref().is_some_and(|current| Arc::ptr_eq(current, generation)) {
            current.generation = None;
        }
    }

    /// Drops the current client.
    pub(super) fn close(&self) {
        if let Some(generation) = std::mem::take(&mut *lock(&self.current)).generation {
            generation.purge();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
