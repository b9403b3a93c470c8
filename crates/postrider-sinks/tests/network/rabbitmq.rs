//! The RabbitMQ sink, behind the proxy.

use std::time::Duration;

use postrider_sinks::rabbitmq::{RabbitMq as RabbitMqSink, RabbitMqConfig};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::rabbitmq::{Delivery, shared};
use postrider_testkit::verify::Sighting;

use super::through::all_troubles;

const QUEUE: &str = "network";

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_receives_everything_through_every_network_fault_and_no_attempt_is_counted() {
    let Some(server) = shared() else { return };
    let proxy = Proxy::to(server.port()).await.unwrap();
    server.create_queue(QUEUE, &[]);
    let config = RabbitMqConfig::new(server.url_at(proxy.port()))
        .routing_key(QUEUE)
        .confirm_timeout(Duration::from_secs(2));
    let seen = || server.read(QUEUE).iter().map(sighting).collect();
    all_troubles("rabbitmq", &proxy, RabbitMqSink::open(&config).unwrap(), seen).await;
}

fn sighting(delivery: &Delivery) -> Sighting {
    let header = |name: &str| delivery.headers.iter().find(|(known, _)| known == name).unwrap().1.clone();
    Sighting {
        id: delivery.message_id.parse().unwrap(),
        key: header("postrider-key"),
        version: std::str::from_utf8(&delivery.body).unwrap().parse().unwrap(),
    }
}
