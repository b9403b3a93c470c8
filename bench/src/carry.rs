//! Postrider on any database: a relay that delivers events to the null sink.

use std::sync::Arc;
use std::time::Duration;

use postrider::Position;
use postrider::encode::Plain;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::{Start, Store};
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
