//! The suite every sink passes, with and without transactions.

use std::sync::Arc;

use bytes::Bytes;
use postrider::BoxFuture;
use postrider::sink::Sink;
use postrider_sinks::kafka::Kafka as KafkaSink;
use postrider_testkit::conformance::sink::cases::{
    an_outage_counts_against_no_message_and_delivery_resumes, hot_keys_keep_their_order_through_an_outage,
};
use postrider_testkit::conformance::sink::{Hook, Seen, SinkUnderTest};
use postrider_testkit::servers::kafka::{Kafka, Record, shared};

use super::topic::{LEASE, committed, config, name, open};

/// A topic with one partition on the shared server; without a server, a sink that stores nothing.
struct Fixture<const TRANSACTIONS: bool> {
    kafka: Option<&'static Kafka>,
    topic: String,
    sink: Arc<dyn Sink>,
}

impl<const TRANSACTIONS: bool> SinkUnderTest for Fixture<TRANSACTIONS> {
    async fn fresh() -> Self {
        let topic = name("conformance");
        let Some(kafka) = shared() else {
            return Self { kafka: None, topic, sink: Arc::new(postrider_sinks::Null::new()) };
        };
        kafka.create_topic(&topic, 1, &[]);
        let mut config = config(kafka, &topic);
        config.transactional_id = TRANSACTIONS.then(|| topic.clone());
        Self { kafka: Some(kafka), sink: open(&config).await, topic }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        Arc::clone(&self.sink)
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let Some(kafka) = self.kafka else { return Box::pin(std::future::ready(Hook::NotSupported)) };
        Box::pin(async { Hook::Done(committed(kafka, &self.topic).into_iter().map(seen).collect()) })
    }

    /// Larger than the client's limit.
    fn refused_body(&self) -> Hook<Bytes> {
        if self.kafka.is_some() { Hook::Done(vec![b'x'; 2 << 20].into()) } else { Hook::NotSupported }
    }

    /// The broker's limit is one mebibyte, including the overhead.
    fn large_body_bytes(&self) -> usize {
        1_000_000
    }
}

/// A private server that can be stopped. After its restart, the sink is taken over, as a relay does.
struct Stoppable<const TRANSACTIONS: bool> {
    server: Option<(Kafka, Arc<KafkaSink>)>,
    topic: String,
}

impl<const TRANSACTIONS: bool> SinkUnderTest for Stoppable<TRANSACTIONS> {
    async fn fresh() -> Self {
        let topic = name("stoppable");
        let Some(kafka) = Kafka::private() else { return Self { server: None, topic } };
        kafka.create_topic(&topic, 1, &[]);
        let mut config = config(&kafka, &topic);
        config.transactional_id = TRANSACTIONS.then(|| topic.clone());
        let sink = open(&config).await;
        Self { server: Some((kafka, sink)), topic }
    }

    fn sink(&self) -> Arc<dyn Sink> {
        match &self.server {
            Some((_, sink)) => sink.clone(),
            None => Arc::new(postrider_sinks::Null::new()),
        }
    }

    fn seen(&self) -> BoxFuture<'_, Hook<Vec<Seen>>> {
        let records = self.server.as_ref().map(|(kafka, _)| committed(kafka, &self.topic));
        let seen = |records: Vec<Record>| Hook::Done(records.into_iter().map(seen).collect());
        Box::pin(std::future::ready(records.map_or(Hook::NotSupported, seen)))
    }

    fn outage(&self, down: bool) -> BoxFuture<'_, Hook<()>> {
        Box::pin(async move {
            let Some((kafka, sink)) = &self.server else { return Hook::NotSupported };
            if down {
                kafka.stop();
            } else {
                kafka.start();
                sink.take_over(LEASE).await.unwrap();
            }
            Hook::Done(())
        })
    }
}

fn seen(record: Record) -> Seen {
    let header = |(name, value): (String, Vec<u8>)| (name, String::from_utf8(value).unwrap());
    Seen { body: record.value.into(), headers: Some(record.headers.into_iter().map(header).collect()) }
}

mod plain {
    postrider_testkit::sink_conformance!(super::Fixture<false>);
}

mod transactions {
    postrider_testkit::sink_conformance!(super::Fixture<true>);
}

#[tokio::test]
async fn a_stopped_broker_counts_against_no_message_and_delivery_resumes() {
    an_outage_counts_against_no_message_and_delivery_resumes::<Stoppable<false>>().await;
}

#[tokio::test]
async fn with_transactions_a_stopped_broker_counts_against_no_message_and_delivery_resumes() {
    an_outage_counts_against_no_message_and_delivery_resumes::<Stoppable<true>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hot_keys_keep_their_order_while_the_broker_is_stopped() {
    hot_keys_keep_their_order_through_an_outage::<Stoppable<false>>().await;
}
