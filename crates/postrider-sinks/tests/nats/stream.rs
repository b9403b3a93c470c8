//! A new stream, a sink that writes to it, and its reader.

use std::sync::Arc;
use std::time::Duration;

use postrider::encode::{Encoder, Plain};
use postrider::sink::Message;
use postrider::{Event, Position};
use postrider_sinks::nats::{Nats as NatsSink, NatsConfig};
pub(crate) use postrider_testkit::conformance::sink::letters;
use postrider_testkit::servers::nats::{Nats, Stored};

/// Long enough for a busy machine, short enough to see an outage soon.
pub(crate) const ACK: Duration = Duration::from_secs(4);

/// A unique name, also of a subject.
pub(crate) fn name(what: &str) -> String {
    format!("{what}-{}", uuid::Uuid::now_v7().simple())
}

/// A sink that sends everything to one subject of the stream, which has its name.
pub(crate) fn config(server: &Nats, stream: &str) -> NatsConfig {
    NatsConfig::new(server.url(), stream).subject(stream).ack_timeout(ACK)
}

pub(crate) fn open(config: &NatsConfig) -> Arc<NatsSink> {
    Arc::new(NatsSink::open(config).unwrap())
}

/// A message of a key for a destination.
pub(crate) fn message_to(destination: &str, key: &str, body: &str) -> Message {
    let encoder: Arc<dyn Encoder> = Arc::new(Plain);
    let event = Event::new("routed", body.to_owned()).with_key(key);
    Message::encode(&encoder, Position::new(1), Arc::new(event), destination.into()).unwrap()
}

pub(crate) fn texts(messages: &[Stored]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8(message.body.clone()).unwrap()).collect()
}
