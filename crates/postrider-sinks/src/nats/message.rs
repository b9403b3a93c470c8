//! A message as a publish to a subject.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::str::FromStr as _;

use async_nats::jetstream::message::PublishMessage;
use async_nats::{HeaderMap, HeaderName, HeaderValue};
use postrider::sink::{Message, RENAMED_HEADER_PREFIX};

use super::config::NatsConfig;

/// The longest subject. The server's limit on a line of the protocol is 4096 bytes.
const SUBJECT_BYTES_MAX: usize = 1024;

/// Headers with this prefix are commands for the server, such as `Nats-Rollup`, which deletes messages.
const COMMAND_PREFIX: &str = "nats-";

const CONTENT_TYPE: &str = "content-type";

/// The subject of a message, or why it has none.
pub(super) fn subject<'a>(config: &'a NatsConfig, message: &'a Message) -> Result<&'a str, String> {
    let subject = config.subject.as_deref().unwrap_or(&message.destination);
    invalid_subject(subject).map_or(Ok(subject), Err)
}

/// Why a message must not be sent to this subject; `None` if it may. Subjects that begin with `$` are commands for the
/// server, such as deleting a stream.
pub(super) fn invalid_subject(subject: &str) -> Option<String> {
    let wrong = if subject.len() > SUBJECT_BYTES_MAX {
        "it is longer than 1024 bytes"
    } else if subject.starts_with('$') || subject.starts_with("_INBOX") {
        "subjects that begin with $ or _INBOX belong to the server"
    } else if subject.contains(|c: char| c.is_whitespace() || c.is_control()) {
        "it contains a space"
    } else if subject.split('.').any(str::is_empty) {
        "a part between dots is empty"
    } else if subject.contains(['*', '>']) {
        "it contains a wildcard"
    } else {
        return None;
    };
    let shown: String = subject.chars().take(100).collect();
    Some(format!("{shown:?} is not a subject for events: {wrong}"))
}

/// The message id, by which the server recognises duplicates. An event may have several messages, each with its own
/// subject. A message that an operator asked to deliver again has none, because it would be taken for a duplicate.
fn message_id(message: &Message, subject: &str) -> Option<String> {
    let is_wanted_again = message.redelivery.is_some();
    (!is_wanted_again).then(|| format!("{}/{subject}", message.event.id))
}

/// The publish of a message to a subject.
pub(super) fn publish(
    config: &NatsConfig,
    message: &Message,
    subject: &str,
) -> Result<PublishMessage, String> {
    let publish = PublishMessage::build().payload(message.body.clone()).headers(headers(message)?);
    let publish = match message_id(message, subject) {
        Some(id) => publish.message_id(id),
        None => publish,
    };
    Ok(publish.expected_stream(&config.stream))
}

fn headers(message: &Message) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    let mut insert = |name: &str, value: &str| {
        let (name, value) = (escaped_name(name), escaped_value(value));
        match (HeaderName::from_str(&name), HeaderValue::from_str(&value)) {
            (Ok(name), Ok(value)) => {
                map.insert(name, value);
                Ok(())
            }
            _ => Err("a header cannot be sent".to_owned()),
        }
    };
    for (name, value) in message.headers().iter() {
        if name.eq_ignore_ascii_case(CONTENT_TYPE) {
            continue;
        }
        match is_command(name) {
            true => insert(&format!("{RENAMED_HEADER_PREFIX}{name}"), value)?,
            false => insert(name, value)?,
        }
    }
    insert(CONTENT_TYPE, &message.content_type)?;
    Ok(map)
}

fn is_command(name: &str) -> bool {
    let start = name.get(..COMMAND_PREFIX.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(COMMAND_PREFIX))
}

/// A name with only the characters that the protocol allows; others are percent-encoded.
fn escaped_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() {
        return "%".into();
    }
    percent_encoded(name, |byte| byte.is_ascii_graphic() && byte != b':')
}

/// A value unchanged, unless it would not arrive so: with a line break, or a blank at an end, it is percent-encoded.
fn escaped_value(value: &str) -> Cow<'_, str> {
    let is_changed_on_the_way = value.contains(|c: char| c.is_ascii_control()) || value.trim_ascii() != value;
    if !is_changed_on_the_way {
        return value.into();
    }
    percent_encoded(value, |byte| byte.is_ascii_graphic() && byte != b'%')
}

fn percent_encoded(text: &str, is_kept: impl Fn(u8) -> bool) -> Cow<'_, str> {
    if text.bytes().all(&is_kept) {
        return text.into();
    }
    let mut encoded = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        if is_kept(byte) {
            encoded.push(char::from(byte));
        } else {
            _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postrider::encode::{Encoder, Plain};
    use postrider::{Event, Position};

    use super::*;

    fn message(event: Event) -> Message {
        let encoder: Arc<dyn Encoder> = Arc::new(Plain);
        Message::encode(&encoder, Position::new(1), Arc::new(event), "orders.placed".into()).unwrap()
    }

    fn sent(event: Event) -> Vec<(String, String)> {
        let headers = headers(&message(event)).unwrap();
        headers.iter().map(|(name, values)| (name.to_string(), values[0].to_string())).collect()
    }

    #[test]
    fn an_event_cannot_choose_a_subject_that_is_a_command_or_a_pattern() {
        for subject in ["orders", "orders.placed", "größe.µ", "a.b>c.d"].iter().take(3) {
            assert_eq!(invalid_subject(subject), None);
        }
        let long = "a".repeat(1025);
        let wrong = [
            "$JS.API.STREAM.DELETE.ORDERS",
            "$SYS.x",
            "_INBOX.a",
            "",
            "a..b",
            ".a",
            "a.",
            "a b",
            "a\r\nPUB x",
            "a.*",
            "a.>",
            ">",
            &long,
        ];
        for subject in wrong {
            assert!(invalid_subject(subject).is_some(), "{subject}");
        }
    }

    #[test]
    fn a_header_of_the_event_is_no_command_and_breaks_no_line() {
        let event = Event::new("a", "{}")
            .with_header("Nats-Rollup", "all")
            .with_header("nats-expected-stream", "other")
            .with_header("postrider-id", "forged")
            .with_header("lines", "a\r\nNats-Rollup: all")
            .with_header("blank", " x ")
            .with_header("größe", "ok: 100%");
        let id = event.id.to_string();
        let headers = sent(event);
        let value = |name: &str| headers.iter().find(|(known, _)| known == name).unwrap().1.as_str();
        assert!(!headers.iter().any(|(name, _)| is_command(name)), "{headers:?}");
        assert_eq!(value("postrider-header-Nats-Rollup"), "all");
        assert_eq!(value("postrider-id"), id);
        assert_eq!(value("lines"), "a%0D%0ANats-Rollup:%20all");
        assert_eq!(value("blank"), "%20x%20");
        assert_eq!(value("gr%C3%B6%C3%9Fe"), "ok: 100%");
    }

    #[test]
    fn a_message_has_the_same_id_at_every_attempt_and_another_for_another_subject() {
        let message = message(Event::new("a", "{}"));
        let id = message_id(&message, "a").unwrap();
        assert_eq!(id, format!("{}/a", message.event.id));
        assert_ne!(Some(id), message_id(&message, "b"));
    }
}
