//! A message as a publish packet.

use std::borrow::Cow;

use postrider::sink::{Message, RENAMED_HEADER_PREFIX};
use rumqttc::PublishProperties;

/// The user property with the key; absent for a message without one.
const KEY: &str = "key";
/// The user property with the event's id. It is there whatever the encoder sends.
const ID: &str = "postrider-id";
const CONTENT_TYPE: &str = "content-type";

/// Maximum length of a text in MQTT.
const TEXT_BYTES_MAX: usize = 65_535;
/// Upper limit of the parts of a packet that have a fixed size: header, lengths, packet id.
const FRAME_BYTES_MAX: usize = 1 + 4 + 2 + 2 + 4;

/// Why a topic cannot be published to; `None` if it can. Topics that begin with `$` belong to the broker: only a
/// configured topic may.
pub(super) fn invalid_topic(topic: &str, is_configured: bool) -> Option<String> {
    let why = if topic.is_empty() {
        "it is empty"
    } else if topic.len() > TEXT_BYTES_MAX {
        "it is longer than 65535 bytes"
    } else if topic.contains(['+', '#']) {
        "it contains a wildcard (+ or #)"
    } else if topic.starts_with('$') && !is_configured {
        "it begins with $, and such topics belong to the broker"
    } else if topic.contains(is_not_allowed) {
        "it contains a character that MQTT does not allow"
    } else {
        return None;
    };
    let start: String = topic.chars().take(100).collect();
    Some(format!("{start:?} is not a topic to publish to: {why}"))
}

/// Characters for which a broker may close the connection: one event with them would stop all others.
fn is_not_allowed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{fdd0}'..='\u{fdef}') || u32::from(c) & 0xfffe == 0xfffe
}

/// The properties of a message. The name of a header that is reserved is changed.
pub(super) fn properties(message: &Message) -> PublishProperties {
    let headers = message.headers();
    let mut user_properties = Vec::with_capacity(headers.len() + 2);
    if let Some(key) = message.key() {
        user_properties.push((KEY.to_owned(), encoded(key).into_owned()));
    }
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(ID)) {
        user_properties.push((ID.to_owned(), message.event.id.to_string()));
    }
    for (name, value) in headers {
        if name.eq_ignore_ascii_case(CONTENT_TYPE) {
            continue;
        }
        let name = match name.eq_ignore_ascii_case(KEY) {
            true => format!("{RENAMED_HEADER_PREFIX}{name}"),
            false => name,
        };
        user_properties.push((encoded(&name).into_owned(), encoded(&value).into_owned()));
    }
    PublishProperties {
        content_type: Some(encoded(&message.content_type).into_owned()),
        user_properties,
        ..PublishProperties::default()
    }
}

/// Percent-encodes characters that MQTT does not allow, and `%`.
fn encoded(text: &str) -> Cow<'_, str> {
    let stays = |c: char| c != '%' && !is_not_allowed(c);
    if text.chars().all(stays) {
        return text.into();
    }
    let mut encoded = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if stays(c) {
            encoded.push(c);
        } else {
            c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| encoded.push_str(&format!("%{byte:02X}")));
        }
    }
    encoded.into()
}

/// Why a message can never be sent; `None` if it can.
pub(super) fn refusal(
    topic: &str,
    is_configured: bool,
    properties: &PublishProperties,
    body_bytes: usize,
    bytes_max: usize,
) -> Option<String> {
    if let Some(why) = invalid_topic(topic, is_configured) {
        return Some(why);
    }
    let content_type = properties.content_type.as_deref().unwrap_or_default();
    let pairs =
        || properties.user_properties.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    if let Some(long) = pairs().chain([content_type]).find(|text| text.len() > TEXT_BYTES_MAX) {
        let start: String = long.chars().take(40).collect();
        return Some(format!("a header or its name is longer than 65535 bytes: {start:?}"));
    }
    let texts: usize = pairs().map(|text| text.len() + 2).sum();
    let marks = properties.user_properties.len() + 3 + content_type.len();
    let bytes = FRAME_BYTES_MAX + topic.len() + texts + marks + body_bytes;
    (bytes > bytes_max).then(|| format!("it has up to {bytes} bytes; the maximum is {bytes_max}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider::encode::{Encoder, Envelope, Plain};
    use postrider::{Event, Position};
    use rumqttc::{Publish, QoS};

    use super::*;

    fn message(event: Event, encoder: impl Encoder + 'static) -> Message {
        let encoder: Arc<dyn Encoder> = Arc::new(encoder);
        Message::encode(&encoder, Position::new(1), Arc::new(event), "orders".into()).unwrap()
    }

    fn values(properties: &PublishProperties, name: &str) -> Vec<String> {
        let same = properties.user_properties.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.clone()).collect()
    }

    #[test]
    fn a_header_of_the_event_cannot_replace_a_property_of_postrider() {
        let event = Event::new("a", "{}")
            .with_key("50% \u{1}")
            .with_header("Key", "forged")
            .with_header("Content-Type", "text/csv")
            .with_header("postrider-id", "forged")
            .with_header("tenant", "grün");
        let id = event.id.to_string();
        let message = message(event, Plain);
        let properties = properties(&message);
        assert_eq!(values(&properties, "key"), ["50%25 %01"]);
        assert_eq!(values(&properties, "postrider-id"), [id]);
        assert_eq!(values(&properties, "postrider-header-key"), ["forged"]);
        assert_eq!(values(&properties, "tenant"), ["grün"]);
        assert_eq!(values(&properties, "content-type"), [""; 0]);
        assert_eq!(properties.content_type.as_deref(), Some(&*message.content_type));
    }

    #[test]
    fn the_id_is_a_property_whatever_the_encoder_sends() {
        let event = Event::new("a", "{}");
        let id = event.id.to_string();
        assert_eq!(values(&properties(&message(event, Envelope)), "postrider-id"), [id]);
    }

    #[test]
    fn topics_that_a_broker_would_refuse_or_misread_are_detected() {
        for topic in ["orders", "shop/orders/42", "größe/世界", "a b", "/", "a//b"] {
            assert_eq!(invalid_topic(topic, false), None, "{topic}");
        }
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        for topic in [
            "",
            "a/+",
            "#",
            "a\u{0}",
            "a\nb",
            "\u{fffe}",
            "\u{fdd0}",
            "\u{10ffff}",
            "$SYS/x",
            "$share/g/t",
            &long,
        ] {
            assert!(invalid_topic(topic, false).is_some_and(|why| why.len() < 1_000), "{topic}");
        }
        assert_eq!(invalid_topic("$aws/rules/x", true), None);
    }

    #[test]
    fn the_size_of_a_packet_is_never_taken_for_smaller_than_it_is() {
        for (body, headers) in [(0, 0), (1, 1), (127, 3), (20_000, 200), (3_000_000, 50)] {
            let mut event = Event::new("a", vec![b'x'; body]).with_key("k");
            for number in 0..headers {
                event = event.with_header(format!("header-{number}"), "value");
            }
            let message = message(event, Plain);
            let properties = properties(&message);
            let mut packet =
                Publish::new("orders", QoS::AtLeastOnce, message.body.clone(), Some(properties.clone()));
            packet.pkid = 7;
            let fits = |bytes_max| refusal("orders", false, &properties, body, bytes_max).is_none();
            assert!(!fits(packet.size() - 1), "{body} {headers}");
            assert!(fits(packet.size() + 12), "{body} {headers}");
        }
    }
}
