//! A new topic, a sink that writes to it, and its reader.

use std::sync::Arc;
use std::time::Duration;

use postrider::sink::{Outcome, Sink};
use postrider_sinks::kafka::{Kafka as KafkaSink, KafkaConfig};
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

/// One letter per outcome.
pub(crate) fn letters(outcomes: &[Outcome]) -> String {
    let letter = |outcome: &Outcome| match outcome {
        Outcome::Acknowledged(_) => 'a',
        Outcome::Retryable(_) => 'y',
        Outcome::Failed(_) => 'f',
        Outcome::Rejected(_) => 'r',
        Outcome::Ambiguous(failure) if failure.destination_down => 'D',
        Outcome::Ambiguous(_) => '?',
        Outcome::Down(_) => 'd',
        Outcome::Untried => '-',
        Outcome::Fenced => 'x',
    };
    outcomes.iter().map(letter).collect()
}
