//! The scripted destination as a `Sink` of the relay.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider::BoxFuture;
use postrider::sink::{Capabilities, Message, Outcome, Sink};

use super::{BatchState, Destination, Offer, Offered};

/// A sink for ordinary tests. Clones share one destination.
///
/// A message without an answer stays in flight until the relay's publish timeout. A deadly message panics the task that
/// publishes it.
#[derive(Debug, Clone, Default)]
pub struct ScriptedSink {
    destination: Arc<Mutex<Destination>>,
}

impl ScriptedSink {
    /// A sink that accepts every message until its script is changed.
    pub fn new() -> Self {
        Self::default()
    }

    /// A sink that is prefix safe.
    pub fn prefix_safe() -> Self {
        Self { destination: Arc::new(Mutex::new(Destination::new(true))) }
    }

    /// The destination, to change its script and to inspect its messages.
    pub fn destination(&self) -> MutexGuard<'_, Destination> {
        self.destination.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcomes of a batch; `None` if there is no answer.
    fn take(&self, batch: &[Message]) -> Option<Vec<Outcome>> {
        let mut destination = self.destination();
        let mut state = BatchState::default();
        let mut outcomes = Vec::with_capacity(batch.len());
        for message in batch {
            let key = message.ordering_key();
            let (event, position) = (message.event.id, message.position);
            let offer = Offer { event, position, key: key.as_deref(), writer: 0 };
            match destination.offer(&mut state, offer) {
                Offered::Answer(outcome) => outcomes.push(outcome),
                Offered::NoAnswer => return None,
                Offered::ProcessDied => {
                    drop(destination);
                    #[allow(clippy::panic, reason = "the script asks for the death of the process")]
                    {
                        panic!("event {} is deadly", message.event.id)
                    }
                }
            }
        }
        Some(outcomes)
    }
}

impl Sink for ScriptedSink {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            match self.take(batch) {
                Some(outcomes) => outcomes,
                None => std::future::pending().await,
            }
        })
    }

    fn capabilities(&self) -> Capabilities {
        if self.destination().prefix_safe { Capabilities::PREFIX_SAFE } else { Capabilities::default() }
    }
}
