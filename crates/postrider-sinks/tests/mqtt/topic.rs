//! A new topic, a session that keeps its messages, and a sink that publishes to it.

use std::sync::Arc;
use std::time::Duration;

use postrider::encode::{Encoder, Plain};
use postrider::sink::Message;
use postrider::{Event, Position};
use postrider_sinks::mqtt::{Mqtt, MqttConfig};
use postrider_testkit::servers::mosquitto::{Listener, Mosquitto, Received};

/// A unique name, for a topic and its session.
pub(crate) fn name(what: &str) -> String {
    format!("{what}/{}", uuid::Uuid::now_v7().simple())
}

pub(crate) fn config(broker: &Mosquitto) -> MqttConfig {
    MqttConfig::new(broker.address(Listener::Plain))
        .timeout(Duration::from_secs(2))
        .connect_timeout(Duration::from_secs(1))
}

pub(crate) fn open(config: &MqttConfig) -> Arc<Mqtt> {
    Arc::new(Mqtt::open(config).unwrap())
}

/// A message of this key to this topic.
pub(crate) fn to(topic: &str, key: &str, number: usize) -> Message {
    let encoder: Arc<dyn Encoder> = Arc::new(Plain);
    let event = Event::new("mqtt.tested", format!("{key} {number}")).with_key(key);
    let position = Position::new(i64::try_from(number).unwrap() + 1);
    Message::encode(&encoder, position, Arc::new(event), topic.into()).unwrap()
}

/// The payloads of messages.
pub(crate) fn payloads(received: &[Received]) -> Vec<String> {
    received.iter().map(|message| String::from_utf8(message.payload.clone()).unwrap()).collect()
}
