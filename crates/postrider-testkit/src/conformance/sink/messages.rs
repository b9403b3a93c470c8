//! Messages to publish, each with a body that tells its key and number.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use postrider::encode::{Encoded, JSON};
use postrider::sink::Message;
use postrider::{Event, Headers, Position};

/// The `number`th message of a key. Its body is compact JSON.
pub fn message(key: &str, number: usize) -> Message {
    message_with(key, number, format!(r#"{{"key":"{key}","number":{number}}}"#), Headers::default())
}

/// A message with this body and these headers.
pub fn message_with(key: &str, number: usize, body: impl Into<Bytes>, headers: Headers) -> Message {
    let position = Position::new(i64::try_from(number).unwrap_or(i64::MAX).saturating_add(1));
    let body = body.into();
    let event = Event::new("conformance.tested", body.clone()).with_key(key);
    let encoded = Encoded { body, content_type: JSON.into(), headers };
    Message::new(position, Arc::new(event), "conformance".into(), encoded)
}

/// Messages of one key.
pub fn batch(key: &str, numbers: Range<usize>) -> Vec<Message> {
    numbers.map(|number| message(key, number)).collect()
}
