//! The MQTT sink, through the proxy.

use std::time::Duration;

use postrider_sinks::mqtt::{Mqtt, MqttConfig};
use postrider_testkit::proxy::Proxy;
use postrider_testkit::servers::mosquitto::{Listener, Mosquitto, Received};
use postrider_testkit::verify::Sighting;

use super::through::all_troubles;

const TOPIC: &str = "network";

#[tokio::test(flavor = "multi_thread")]
async fn mqtt_receives_everything_through_every_network_fault_and_no_attempt_is_counted() {
    let Some(broker) = Mosquitto::private() else { return };
    let proxy = Proxy::to(broker.port(Listener::Plain)).await.unwrap();
    broker.subscribe(TOPIC, TOPIC);
    let config = MqttConfig::new(proxy.address().to_string())
        .topic(TOPIC)
        .timeout(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(1));
    let seen = || broker.receive(TOPIC).iter().map(sighting).collect();
    all_troubles("mqtt", &proxy, Mqtt::open(&config).unwrap(), seen).await;
}

fn sighting(message: &Received) -> Sighting {
    Sighting {
        id: message.property("postrider-id").unwrap().parse().unwrap(),
        key: message.property("key").unwrap().to_owned(),
        version: std::str::from_utf8(&message.payload).unwrap().parse().unwrap(),
    }
}
