//! The Kafka sink, to a broker that advertises the proxy.

use std::time::Duration;

use postrider_sinks::kafka::{Kafka as KafkaSink, KafkaConfig};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::free_port;
use postrider_testkit::servers::kafka::{Isolation, Kafka, Listener, Record};
use postrider_testkit::verify::Sighting;

use super::through::all_troubles;

const TOPIC: &str = "network";

#[tokio::test(flavor = "multi_thread")]
async fn kafka_receives_everything_through_every_network_fault_and_no_attempt_is_counted() {
    through_all(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_with_transactions_receives_everything_through_every_network_fault_and_no_attempt_is_counted() {
    through_all(true).await;
}

async fn through_all(transactions: bool) {
    let port = free_port().unwrap();
    let proxy = Proxy::to(port).await.unwrap();
    let Some(kafka) = Kafka::behind(port, proxy.port()) else { return };
    kafka.create_topic(TOPIC, 3, &[]);
    let mut config = KafkaConfig::new(kafka.brokers_of(Listener::Proxied))
        .topic(TOPIC)
        .delivery_timeout(Duration::from_secs(2));
    config.transactional_id = transactions.then(|| TOPIC.to_owned());
    let seen = || kafka.read(TOPIC, Isolation::Committed).iter().map(sighting).collect();
    let name = if transactions { "kafka with transactions" } else { "kafka" };
    all_troubles(name, &proxy, KafkaSink::open(&config).unwrap(), seen).await;
}

fn sighting(record: &Record) -> Sighting {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let id = record.headers.iter().find(|(name, _)| name == "postrider-id").unwrap();
    Sighting {
        id: text(&id.1).parse().unwrap(),
        key: text(record.key.as_ref().unwrap()),
        version: text(&record.value).parse().unwrap(),
    }
}
