//! A bug that shows as a panic while an outbox is being opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider::ledger::Progress;
use postrider::relay::{OutboxOptions, RelayHandle, SubscriptionStatus};
use postrider::store::{
    Acquired, Claimer, Epoch, Fetched, LeaseRequest, Overview, Purge, Purged, Renewed, Settled, Settlement,
    Start, Store,
};
use postrider::{BoxFuture, Code, Outbox, Position, Relay, Result, Subscription};

use super::shop::{RecordingSink, Shop, order};

/// A store whose first calls of `subscribe` panic.
struct Panicking {
    store: Arc<dyn Store>,
    panics: AtomicUsize,
}

impl Panicking {
    fn times(panics: usize, shop: &Shop) -> Self {
        Self { store: shop.store.clone(), panics: AtomicUsize::new(panics) }
    }
}

impl Store for Panicking {
    fn subscribe(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<bool>> {
        let subscription = subscription.to_owned();
        Box::pin(async move {
            let left = self.panics.load(Ordering::Relaxed);
            self.panics.store(left.saturating_sub(1), Ordering::Relaxed);
            assert!(left == 0, "a bug in the driver");
            self.store.subscribe(&subscription, start).await
        })
    }

    fn acquire(&self, lease: LeaseRequest) -> BoxFuture<'_, Result<Acquired>> {
        self.store.acquire(lease)
    }

    fn renew(&self, lease: LeaseRequest, epoch: Epoch) -> BoxFuture<'_, Result<Renewed>> {
        self.store.renew(lease, epoch)
    }

    fn release(&self, subscription: &str, epoch: Epoch, clean: bool) -> BoxFuture<'_, Result<()>> {
        self.store.release(subscription, epoch, clean)
    }

    fn claimer(&self, progress: &Progress) -> Box<dyn Claimer> {
        self.store.claimer(progress)
    }

    fn fetch(&self, positions: Vec<Position>, bytes_max: usize) -> BoxFuture<'_, Result<Fetched>> {
        self.store.fetch(positions, bytes_max)
    }

    fn settle(&self, settlement: Settlement) -> BoxFuture<'_, Result<Settled>> {
        self.store.settle(settlement)
    }

    fn pause(&self, subscription: &str, reason: Option<&str>) -> BoxFuture<'_, Result<()>> {
        self.store.pause(subscription, reason)
    }

    fn pause_as_owner(
        &self,
        subscription: &str,
        epoch: Epoch,
        reason: &str,
    ) -> BoxFuture<'_, Result<Settled>> {
        self.store.pause_as_owner(subscription, epoch, reason)
    }

    fn halt(&self, subscription: &str, epoch: Epoch, reason: &str) -> BoxFuture<'_, Result<Settled>> {
        self.store.halt(subscription, epoch, reason)
    }

    fn accept_history(&self, subscription: &str, start: Start) -> BoxFuture<'_, Result<()>> {
        self.store.accept_history(subscription, start)
    }

    fn purge(&self, purge: Purge) -> BoxFuture<'_, Result<Purged>> {
        self.store.purge(purge)
    }

    fn overview(&self, backlog_max: u64) -> BoxFuture<'_, Result<Overview>> {
        self.store.overview(backlog_max)
    }
}

fn named(name: &str) -> OutboxOptions {
    OutboxOptions::default().name(name)
}

fn status(relay: &RelayHandle, outbox: &str) -> SubscriptionStatus {
    relay.status().into_iter().find(|of| of.outbox.as_deref() == Some(outbox)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_an_outbox_is_opened_is_its_error_and_the_others_are_served() {
    let (healthy, failing) = (Shop::open(), Shop::open());
    let (sink, late) = (RecordingSink::new(), RecordingSink::new());
    Outbox::new().write(&healthy.connect(), order(1)).unwrap();
    Outbox::new().write(&failing.connect(), order(2)).unwrap();
    let relay = Relay::builder()
        .outbox_with(
            Panicking::times(3, &failing),
            [Subscription::new("audit", late.clone())],
            named("failing"),
        )
        .outbox_with(healthy.store.clone(), [Subscription::new("audit", sink.clone())], named("healthy"))
        .spawn()
        .await
        .unwrap();
    let failed = status(&relay.handle(), "failing");
    assert_eq!(failed.error_code, Some(Code::RelayStopped), "{failed:?}");
    let says = failed.error.unwrap();
    assert!(says.contains("outbox \"failing\"") && says.contains("a bug in the driver"), "{says}");
    sink.wait_for(1).await;
    assert_eq!(status(&relay.handle(), "healthy").error, None);
    // It is tried again.
    late.wait_for(1).await;
    assert_eq!(status(&relay.handle(), "failing").error, None);
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_the_only_outbox_or_an_added_one_is_opened_is_returned() {
    let (healthy, failing) = (Shop::open(), Shop::open());
    let subscription = || [Subscription::new("audit", RecordingSink::new())];
    let refused = Relay::builder()
        .outbox_with(Panicking::times(9, &failing), subscription(), named("failing"))
        .spawn()
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::RelayStopped);
    assert!(refused.message().contains("a bug in the driver"), "{refused}");

    let relay = Relay::builder()
        .outbox_with(healthy.store.clone(), subscription(), named("healthy"))
        .spawn()
        .await
        .unwrap();
    let handle = relay.handle();
    let refused =
        handle.add_outbox(Panicking::times(9, &failing), subscription(), named("failing")).await.unwrap_err();
    assert!(refused.message().contains("outbox \"failing\""), "{refused}");
    handle.add_outbox(failing.store.clone(), subscription(), named("failing")).await.unwrap();
    relay.shutdown().await.unwrap();
}
