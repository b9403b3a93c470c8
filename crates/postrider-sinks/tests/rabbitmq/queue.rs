//! A new queue, a sink that writes to it, and its reader.

use std::sync::Arc;
use std::time::Duration;

use postrider::encode::{Encoder, Plain};
use postrider::sink::Message;
use postrider::{Event, Position};
use postrider_sinks::rabbitmq::{RabbitMq as RabbitMqSink, RabbitMqConfig};
pub(crate) use postrider_testkit::conformance::sink::letters;
use postrider_testkit::servers::rabbitmq::{Delivery, RabbitMq};

/// Long enough for a busy machine, short enough to see an outage soon.
pub(crate) const CONFIRM: Duration = Duration::from_secs(4);

/// A unique name.
pub(crate) fn name(what: &str) -> String {
    format!("{what}-{}", uuid::Uuid::now_v7().simple())
}

/// A sink that sends everything to one queue.
pub(crate) fn config(server: &RabbitMq, queue: &str) -> RabbitMqConfig {
    RabbitMqConfig::new(server.url()).routing_key(queue).confirm_timeout(CONFIRM)
}

pub(crate) fn open(config: &RabbitMqConfig) -> Arc<RabbitMqSink> {
    Arc::new(RabbitMqSink::open(config).unwrap())
}

/// A message of a key for a destination.
pub(crate) fn message_to(destination: &str, key: &str, body: &str) -> Message {
    let encoder: Arc<dyn Encoder> = Arc::new(Plain);
    let event = Event::new("routed", body.to_owned()).with_key(key);
    Message::encode(&encoder, Position::new(1), Arc::new(event), destination.into()).unwrap()
}

pub(crate) fn texts(deliveries: &[Delivery]) -> Vec<String> {
    deliveries.iter().map(|delivery| String::from_utf8(delivery.body.clone()).unwrap()).collect()
}
