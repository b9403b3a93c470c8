//! A sink that acknowledges and records everything.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use postrider::BoxFuture;
use postrider::sink::{Message, Outcome, Receipt, Sink};
use tokio::sync::watch;
use uuid::Uuid;

/// Clones share their records.
#[derive(Clone)]
pub(crate) struct Recorder {
    ids: Arc<Mutex<Vec<Uuid>>>,
    distinct: watch::Sender<usize>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { ids: Arc::default(), distinct: watch::Sender::new(0) }
    }

    /// The deliveries, in their order.
    pub(crate) fn delivered(&self) -> Vec<Uuid> {
        self.ids.lock().unwrap().clone()
    }

    /// Waits until this many different events were delivered.
    pub(crate) async fn wait_for(&self, events: usize) {
        let mut distinct = self.distinct.subscribe();
        let waiting = tokio::time::timeout(super::LONG, distinct.wait_for(|seen| *seen >= events));
        let came = waiting.await.is_ok();
        let seen = *self.distinct.borrow();
        assert!(came, "{seen} of {events} events arrived");
    }
}

impl Sink for Recorder {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let distinct = {
                let mut ids = self.ids.lock().unwrap();
                ids.extend(batch.iter().map(|message| message.event.id));
                ids.iter().collect::<HashSet<_>>().len()
            };
            self.distinct.send_replace(distinct);
            batch.iter().map(|_| Outcome::Acknowledged(Receipt::default())).collect()
        })
    }
}
