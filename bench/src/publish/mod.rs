//! How fast a backlog reaches a broker, compared with the broker's client publishing the same records alone.

#[cfg(feature = "kafka")]
mod encoders;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "mqtt")]
mod mqtt;
#[cfg(feature = "redis")]
mod redis;

#[cfg(feature = "kafka")]
pub use encoders::{PublishedAs, encoders_to_kafka};
#[cfg(feature = "kafka")]
pub use kafka::postgres_to_kafka;
#[cfg(feature = "mqtt")]
pub use mqtt::postgres_to_mqtt;
#[cfg(feature = "redis")]
pub use redis::postgres_to_redis;

#[cfg(any(feature = "mqtt", feature = "redis"))]
use {
    crate::counted::Counted,
    crate::drain::rates,
    crate::machine::Meter,
    crate::postgres::Fixture,
    crate::records::{Record, records},
    crate::workload::Workload,
    crate::{Error, Report, Row, Usage},
    postrider::relay::{Relay, Subscription},
    postrider::sink::Sink,
    postrider::store::Start,
    std::sync::Arc,
};

/// What to publish and how often.
#[derive(Debug, Clone)]
pub struct Publish {
    /// Events in the backlog.
    pub events: u64,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Number of keys; 0: a separate key for every event.
    pub keys: u64,
    /// Runs of each contender, in turns.
    pub repetitions: usize,
}

impl Default for Publish {
    fn default() -> Self {
        Self { events: 200_000, payload_bytes: 340, keys: 0, repetitions: 5 }
    }
}

impl Publish {
    /// `200000 events of 340 bytes, a key each, 5 runs in turns`
    fn describe(&self) -> String {
        let Self { events, payload_bytes, keys, repetitions } = self;
        let keys = if *keys == 0 { "a key each".to_owned() } else { format!("{keys} keys") };
        format!("{events} events of {payload_bytes} bytes, {keys}, {repetitions} runs in turns")
    }
}

/// A broker without transactions, and its client.
#[cfg(any(feature = "mqtt", feature = "redis"))]
trait Broker {
    /// Its name, and that of the client.
    const NAMES: (&'static str, &'static str);

    /// Publishes all records to a new place with the client alone.
    async fn alone(&self, place: &str, records: &[Record]) -> Result<Usage, Error>;

    /// A sink that publishes to a new place.
    fn sink(&self, place: &str) -> Result<Arc<dyn Sink>, Error>;

    /// Prepares a new place.
    async fn create(&self, _place: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Removes a place. Returns how many messages it had.
    async fn remove(&self, place: &str) -> Result<u64, Error>;
}

/// Runs the client alone and the relay in turns, from a new schema of a server to new places of a broker.
#[cfg(any(feature = "mqtt", feature = "redis"))]
async fn compare<B: Broker>(
    url: &str,
    broker: &B,
    publish: Publish,
    progress: impl Fn(&str),
) -> Result<Report, Error> {
    let Publish { events, payload_bytes, keys, repetitions } = publish;
    progress(&format!("writing {events} events of {payload_bytes} bytes"));
    let workload = Workload { events, payload_bytes, keys };
    let fixture = Fixture::fill(url, "publish", &workload).await?;
    let records = records(&workload)?;
    let (mut limit, mut relayed) = (Vec::new(), Vec::new());
    for run in 1..=repetitions {
        progress(&format!("run {run} of {repetitions}"));
        // A unique name, because an interrupted run may have left a place.
        let place = |of: &str| format!("postrider-bench-{of}-{run}-{}", uuid::Uuid::now_v7().simple());
        let alone = place("alone");
        broker.create(&alone).await?;
        limit.push(broker.alone(&alone, &records).await?);
        holds_each_once(&alone, broker.remove(&alone).await?, events)?;
        let relay = place("relay");
        broker.create(&relay).await?;
        relayed.push(deliver(&fixture, &format!("publish-{run}"), broker.sink(&relay)?, events).await?);
        holds_each_once(&relay, broker.remove(&relay).await?, events)?;
    }
    fixture.close().await?;
    let (name, client) = B::NAMES;
    Ok(Report {
        title: format!("PostgreSQL to {name}: {}", publish.describe()),
        rows: vec![
            Row::of_runs(&format!("{client} alone (the limit)"), events, &limit),
            Row::of_runs("postrider", events, &relayed),
        ],
        ratios: vec![rates(&format!("postrider / {client} alone"), (&relayed, events), (&limit, events))],
    })
}

/// Delivers all events with a new subscription, from the start of a relay to its clean shutdown.
#[cfg(any(feature = "mqtt", feature = "redis"))]
async fn deliver(fixture: &Fixture, name: &str, sink: Arc<dyn Sink>, events: u64) -> Result<Usage, Error> {
    let store = fixture.store().await?;
    let sink = Arc::new(Counted::new(sink, true));
    let subscription = Subscription::new(name, sink.clone()).start(Start::Beginning);
    let meter = Meter::start();
    let relay = Relay::builder().outbox(store, [subscription]).spawn().await?;
    sink.wait_for(events).await;
    relay.shutdown().await?;
    Ok(meter.stop())
}

/// Checks that every run did the same work.
#[cfg(any(feature = "mqtt", feature = "redis"))]
fn holds_each_once(place: &str, messages: u64, events: u64) -> Result<(), Error> {
    if messages == events { Ok(()) } else { Err(format!("{place} has {messages} of {events} events").into()) }
}
