//! A sink that counts what was acknowledged.

use std::sync::Arc;
use std::time::Duration;

use postrider::sink::{Capabilities, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};
use tokio::sync::watch;

pub(crate) struct Counted {
    inner: Arc<dyn Sink>,
    acknowledged: watch::Sender<u64>,
}

impl Counted {
    pub(crate) fn new(inner: Arc<dyn Sink>) -> Self {
        Self { inner, acknowledged: watch::channel(0).0 }
    }

    /// Waits until this many messages were acknowledged.
    pub(crate) async fn wait_for(&self, events: u64) {
        // The sender exists as long as this sink.
        _ = self.acknowledged.subscribe().wait_for(|acknowledged| *acknowledged >= events).await;
    }
}

impl Sink for Counted {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let outcomes = self.inner.publish(batch).await;
            let acknowledged = outcomes.iter().filter(|one| matches!(one, Outcome::Acknowledged(_))).count();
            self.acknowledged.send_modify(|all| *all += acknowledged as u64);
            outcomes
        })
    }

    fn take_over(&self, lease: Duration) -> BoxFuture<'_, Result<()>> {
        self.inner.take_over(lease)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
