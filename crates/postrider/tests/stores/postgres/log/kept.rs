//! A sink that keeps what it gets.

use std::collections::BTreeSet;
use std::time::Duration;

use postrider::BoxFuture;
use postrider::sink::{Message, Outcome, Receipt, Sink};
use tokio::sync::watch;

/// The types of the events that arrived. Clones share them.
#[derive(Clone)]
pub(crate) struct Kept(watch::Sender<BTreeSet<String>>);

impl Kept {
    pub(crate) fn new() -> Self {
        Self(watch::channel(BTreeSet::new()).0)
    }

    /// Waits for an event. The time is only there to fail instead of hanging.
    pub(crate) async fn wait_for(&self, event: &str) {
        let mut seen = self.0.subscribe();
        let arrived = seen.wait_for(|seen| seen.contains(event));
        tokio::time::timeout(Duration::from_secs(60), arrived)
            .await
            .expect("the event did not come")
            .unwrap();
    }
}

impl Sink for Kept {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let types = batch.iter().map(|message| message.event.event_type.clone());
            self.0.send_modify(|seen| seen.extend(types));
            batch.iter().map(|_| Outcome::Acknowledged(Receipt::default())).collect()
        })
    }
}
