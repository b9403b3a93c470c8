//! A message as a Kafka record.

use postrider::Headers;
use postrider::sink::Message;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use super::delivery::DeliverySlot;

/// Maximum length of a topic name.
const TOPIC_BYTES_MAX: usize = 249;

/// The header with the media type of the value. It is always set by the encoder.
const CONTENT_TYPE: &str = "content-type";

pub(super) type Record<'a> = BaseRecord<'a, str, [u8], Box<DeliverySlot>>;

/// The record of a message: the key selects the partition, the body is the value, everything else is in headers. Only
/// the headers are copied here; the client copies key and value once.
pub(super) fn record<'a>(topic: &'a str, message: &'a Message, slot: Box<DeliverySlot>) -> Record<'a> {
    let own = message.headers().into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case(CONTENT_TYPE));
    let mut headers: Headers = own.collect();
    headers.set(CONTENT_TYPE, message.content_type.clone());
    let all = OwnedHeaders::new_with_capacity(headers.len());
    let all = headers.iter().fold(all, |all, (key, value)| all.insert(Header { key, value: Some(value) }));
    let record = BaseRecord::with_opaque_to(topic, slot).payload(&message.body[..]).headers(all);
    match message.key() {
        Some(key) => record.key(key),
        None => record,
    }
}

/// Why this topic name is not valid; `None` if it is. Saves a request to the broker.
pub(super) fn invalid_topic(topic: &str) -> Option<String> {
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
    fn a_header_of_the_event_cannot_replace_one_of_postrider() {
        let event = Event::new("a", "{}")
            .with_header("Content-Type", "text/csv")
            .with_header("CONTENT-TYPE", "forged")
            .with_header("postrider-id", "forged")
            .with_header("Postrider-Type", "forged")
            .with_header("tenant", "blue");
        let id = event.id.to_string();
        let encoder: Arc<dyn Encoder> = Arc::new(Plain);
        let message = Message::encode(&encoder, Position::new(1), Arc::new(event), "t".into()).unwrap();
        let record = record("t", &message, Deliveries::of(1).slot(0));
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
    fn invalid_topic_names_are_detected() {
        for name in ["orders", "shop.orders_v2-a", &"x".repeat(249)] {
            assert_eq!(invalid_topic(name), None);
        }
        for name in ["", ".", "..", "a b", "a/b", "größe", &"x".repeat(250)] {
            assert!(invalid_topic(name).is_some(), "{name}");
        }
    }
}
