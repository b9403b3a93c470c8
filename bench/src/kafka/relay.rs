//! Postrider, from PostgreSQL to Kafka.

use std::sync::Arc;

use postrider::encode::{Encoder, Envelope};
use postrider::relay::{Relay, Subscription};
use postrider::store::Start;
use postrider_sinks::kafka::{Kafka, KafkaConfig};

use super::Topic;
use crate::counted::Counted;
use crate::machine::Meter;
use crate::postgres::Fixture;
use crate::{Error, Usage};

/// How the sink writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    /// A batch has at most one event of a key.
    OnePerKey,
    /// A batch is a transaction.
    Transactional,
}

/// Delivers all events to a topic with a new subscription, from the start of a relay to its clean shutdown.
pub(crate) async fn relay(
    fixture: &Fixture,
    name: &str,
    topic: &Topic,
    mode: Mode,
    events: u64,
) -> Result<Usage, Error> {
    relay_with(fixture, name, topic, mode, events, Envelope).await
}

/// The same, with another encoder.
pub(crate) async fn relay_with(
    fixture: &Fixture,
    name: &str,
    topic: &Topic,
    mode: Mode,
    events: u64,
    encoder: impl Encoder,
) -> Result<Usage, Error> {
    let store = fixture.store().await?;
    let mut config = KafkaConfig::new(&topic.brokers).topic(&topic.name);
    if mode == Mode::Transactional {
        config = config.transactional_id(name);
    }
    let sink = Arc::new(Counted::new(Arc::new(Kafka::open(&config)?), mode != Mode::OnePerKey));
    let subscription = Subscription::new(name, sink.clone()).start(Start::Beginning).encoder(encoder);
    let meter = Meter::start();
    let relay = Relay::builder().outbox(store, [subscription]).spawn().await?;
    sink.wait_for(events).await;
    relay.shutdown().await?;
    Ok(meter.stop())
}
