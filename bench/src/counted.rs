//! A sink that counts what was acknowledged.

use std::sync::Arc;
use std::time::Duration;

use postrider::sink::{Capabilities, Message, Outcome, Sink};
use postrider::{BoxFuture, Result};
use tokio::sync::watch;

pub(crate) struct Counted {
    inner: Arc<dyn Sink>,
    acknowledged: watch::Sender<u64>,
    is_prefix_safe: bool,
}

impl Counted {
    /// If it is not prefix safe, a batch has at most one event of a key, whatever the inner sink allows.
    pub(crate) fn new(inner: Arc<dyn Sink>, is_prefix_safe: bool) -> Self {
        Self { inner, acknowledged: watch::channel(0).0, is_prefix_safe }
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
        let mut capabilities = self.inner.capabilities();
        capabilities.prefix_safe &= self.is_prefix_safe;
        capabilities
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}
