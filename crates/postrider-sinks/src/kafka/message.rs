//! A message as a record of Kafka.

use postrider::Headers;
use postrider::sink::Message;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use super::delivery::Place;

/// Longest name of a topic.
const TOPIC_BYTES_MAX: usize = 249;

/// The header that says how to read the value. It is always the encoder's.
const CONTENT_TYPE: &str = "content-type";

pub(super) type Record<'a> = BaseRecord<'a, str, [u8], Box<Place>>;

/// The record: the key orders and partitions it, the body is its value, and all that is known travels in headers.
/// Only the headers are copied; the client copies key and value once.
pub(super) fn record<'a>(topic: &'a str, message: &'a Message, place: Box<Place>) -> Record<'a> {
    let own = message.headers().into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case(CONTENT_TYPE));
    let mut headers: Headers = own.collect();
    headers.set(CONTENT_TYPE, message.content_type.clone());
    let all = OwnedHeaders::new_with_capacity(headers.len());
    let all = headers.iter().fold(all, |all, (key, value)| all.insert(Header { key, value: Some(value) }));
    let record = BaseRecord::with_opaque_to(topic, place).payload(&message.body[..]).headers(all);
    match message.key() {
        Some(key) => record.key(key),
        None => record,
    }
}

/// Why no topic can have this name, if so. Asking a broker for it would only take longer.
pub(super) fn wrong_topic(topic: &str) -> Option<String> {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let valid = !topic.is_empty()
        && topic.len() <= TOPIC_BYTES_MAX
        && topic.chars().all(letters)
        && topic != "."
        && topic != "..";
    (!valid).then(|| {
        format!(
            "{topic:?} is not a valid topic name: use 1 to {TOPIC_BYTES_MAX} of a-z A-Z 0-9 . _ -, but not . or .."
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider::encode::{Encoder, Plain};
    use postrider::{Event, Position};
    use rdkafka::message::Headers as _;

    use super::super::delivery::Deliveries;
    use super::*;

    #[test]
    fn an_event_header_cannot_replace_a_postrider_header() {
        let event = Event::new("a", "{}")
            .with_header("Content-Type", "text/csv")
            .with_header("CONTENT-TYPE", "forged")
            .with_header("postrider-id", "forged")
            .with_header("Postrider-Type", "forged")
            .with_header("tenant", "blue");
        let id = event.id.to_string();
        let encoder: Arc<dyn Encoder> = Arc::new(Plain);
        let message = Message::encode(&encoder, Position::new(1), Arc::new(event), "t".into()).unwrap();
        let record = record("t", &message, Deliveries::of(1).place(0));
        let headers = record.headers.unwrap();
        let values = |name: &str| -> Vec<String> {
            let same = headers.iter().filter(|header| header.key.eq_ignore_ascii_case(name));
            same.map(|header| String::from_utf8(header.value.unwrap().to_vec()).unwrap()).collect()
        };
        assert_eq!(values("content-type"), [message.content_type.to_string()]);
        assert_eq!(values("postrider-id"), [id]);
        assert_eq!(values("postrider-type"), ["a"]);
        assert_eq!(values("postrider-header-postrider-id"), ["forged"]);
        assert_eq!(values("tenant"), ["blue"]);
    }

    #[test]
    fn names_that_no_topic_can_have_are_told() {
        for name in ["orders", "shop.orders_v2-a", &"x".repeat(249)] {
            assert_eq!(wrong_topic(name), None);
        }
        for name in ["", ".", "..", "a b", "a/b", "größe", &"x".repeat(250)] {
            assert!(wrong_topic(name).is_some(), "{name}");
        }
    }
}
