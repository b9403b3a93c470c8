//! The scripted destination behind the relay's `Sink`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider::BoxFuture;
use postrider::sink::{Capabilities, Message, Outcome, Sink};

use super::{Destination, Offer, Passage, Taken};

/// A sink for ordinary tests. Clones share one destination.
///
/// A message that hangs is never answered, so the relay's publish timeout applies. A deadly message
/// panics the task that publishes it.
#[derive(Debug, Clone, Default)]
pub struct ScriptedSink {
    destination: Arc<Mutex<Destination>>,
}

impl ScriptedSink {
    /// A sink that takes everything, until its script says otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    /// A sink that keeps the rest of a key out of a batch after a failure.
    pub fn prefix_safe() -> Self {
        Self { destination: Arc::new(Mutex::new(Destination::new(true))) }
    }

    /// The destination, to script and to inspect.
    pub fn destination(&self) -> MutexGuard<'_, Destination> {
        self.destination.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Outcomes of a batch; `None` when no answer will come.
    fn take(&self, batch: &[Message]) -> Option<Vec<Outcome>> {
        let mut destination = self.destination();
        let mut passage = Passage::default();
        let mut outcomes = Vec::with_capacity(batch.len());
        for message in batch {
            let key = message.ordering_key();
            let (event, position) = (message.event.id, message.position);
            let offer = Offer { event, position, key: key.as_deref(), writer: 0 };
            match destination.offer(&mut passage, offer) {
                Taken::Answer(outcome) => outcomes.push(outcome),
                Taken::Silence => return None,
                Taken::Death => {
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
