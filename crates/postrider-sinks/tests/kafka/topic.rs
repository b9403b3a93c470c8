//! A new topic, a sink that writes to it, and its reader.

use std::sync::Arc;
use std::time::Duration;

use postrider::sink::Sink;
use postrider_sinks::kafka::{Kafka as KafkaSink, KafkaConfig};
pub(crate) use postrider_testkit::conformance::sink::letters;
use postrider_testkit::servers::kafka::{Isolation, Kafka, Record};

/// Long enough for a lease, short enough to see an outage soon.
pub(crate) const LEASE: Duration = Duration::from_secs(20);
pub(crate) const DELIVERY: Duration = Duration::from_secs(4);

/// A unique name.
pub(crate) fn name(what: &str) -> String {
    format!("{what}-{}", uuid::Uuid::now_v7().simple())
}

pub(crate) fn config(kafka: &Kafka, topic: &str) -> KafkaConfig {
    KafkaConfig::new(kafka.brokers()).topic(topic).delivery_timeout(DELIVERY)
}

/// Opens a sink and takes it over, as a relay does.
pub(crate) async fn open(config: &KafkaConfig) -> Arc<KafkaSink> {
    let sink = Arc::new(KafkaSink::open(config).unwrap());
    sink.take_over(LEASE).await.unwrap();
    sink
}

/// What a reader of committed records sees.
pub(crate) fn committed(kafka: &Kafka, topic: &str) -> Vec<Record> {
    kafka.read(topic, Isolation::Committed)
}

pub(crate) fn texts(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| String::from_utf8(record.value.clone()).unwrap()).collect()
}
