//! Postrider on any database: a relay that delivers events to the null sink, or calls a handler that does nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use postrider::encode::Plain;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::route::Router;
use postrider::store::{Start, Store};
use postrider::{Event, Position};
use postrider_sinks::Null;

use crate::Error;

/// Delivers this many events from a position on, with a new subscription.
pub(crate) async fn carry(
    store: Arc<dyn Store>,
    name: &str,
    position: u64,
    events: u64,
    policy: Policy,
) -> Result<(), Error> {
    let start = Start::Position(Position::new(i64::try_from(position)?));
    carry_from(store, name, start, events, policy).await
}

/// The same, from any start of the subscription.
pub(crate) async fn carry_from(
    store: Arc<dyn Store>,
    name: &str,
    start: Start,
    events: u64,
    policy: Policy,
) -> Result<(), Error> {
    let sink = Arc::new(Null::new());
    let subscription = Subscription::new(name, sink.clone()).encoder(Plain).policy(policy).start(start);
    let relay = Relay::builder().outbox(store, [subscription]).spawn().await?;
    while sink.messages() < events {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    relay.shutdown().await?;
    Ok(())
}

/// Calls a handler that only counts for this many events, from the first one on: those of all types, or of one.
pub(crate) async fn handle(
    store: Arc<dyn Store>,
    name: &str,
    event_type: Option<&str>,
    events: u64,
) -> Result<(), Error> {
    let handled = Arc::new(AtomicU64::new(0));
    let counter = handled.clone();
    let subscription = Subscription::handler(name, move |_: Arc<Event>, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(()))
    });
    let subscription = match event_type {
        None => subscription,
        Some(event_type) => subscription.router(Router::to(name).only([event_type])),
    };
    let relay = Relay::builder().outbox(store, [subscription.start(Start::Beginning)]).spawn().await?;
    while handled.load(Ordering::Relaxed) < events {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    relay.shutdown().await?;
    Ok(())
}
