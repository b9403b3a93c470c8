//! The NATS sink, behind the proxy.

use std::time::Duration;

use postrider_sinks::nats::{Nats as NatsSink, NatsConfig};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::nats::{Stored, shared};
use postrider_testkit::verify::Sighting;

use super::through::all_troubles;

const STREAM: &str = "network";

#[tokio::test(flavor = "multi_thread")]
async fn nats_receives_everything_through_every_network_fault_and_no_attempt_is_counted() {
    let Some(server) = shared() else { return };
    let proxy = Proxy::to(server.port()).await.unwrap();
    server.create_stream(STREAM, STREAM, &[]);
    let config = NatsConfig::new(server.url_at(proxy.port()), STREAM)
        .subject(STREAM)
        .ack_timeout(Duration::from_secs(2));
    let seen = || server.read(STREAM).iter().map(sighting).collect();
    all_troubles("nats", &proxy, NatsSink::open(&config).unwrap(), seen).await;
}

fn sighting(message: &Stored) -> Sighting {
    Sighting {
        id: message.header("postrider-id").unwrap().parse().unwrap(),
        key: message.header("postrider-key").unwrap().to_owned(),
        version: std::str::from_utf8(&message.body).unwrap().parse().unwrap(),
    }
}
