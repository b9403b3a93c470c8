//! A sink that records the types of the events it receives.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider::BoxFuture;
use postrider::sink::{Message, Outcome, Receipt, Sink};
use tokio::sync::watch;

/// The types of the events that arrived. Clones share them.
#[derive(Clone)]
pub(crate) struct EventTypesSink(watch::Sender<BTreeSet<String>>);

impl EventTypesSink {
    pub(crate) fn new() -> Self {
        Self(watch::channel(BTreeSet::new()).0)
    }

    /// Waits for an event. The timeout makes the test fail instead of hang.
    pub(crate) async fn wait_for(&self, event: &str) {
        let mut seen = self.0.subscribe();
        let arrived = seen.wait_for(|seen| seen.contains(event));
        tokio::time::timeout(Duration::from_secs(60), arrived)
            .await
            .expect("the event did not arrive")
            .unwrap();
    }
}

impl Sink for EventTypesSink {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let types = batch.iter().map(|message| message.event.event_type.clone());
            self.0.send_modify(|seen| seen.extend(types));
            batch.iter().map(|_| Outcome::Acknowledged(Receipt::default())).collect()
        })
    }
}
