//! Messages to publish, with the key and a number in the body.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use postrider::encode::{Encoder, Plain};
use postrider::sink::{Message, Outcome};
use postrider::{Event, Headers, Position};

/// The `number`th message of a key. Its body is compact JSON.
pub fn message(key: &str, number: usize) -> Message {
    message_with(key, number, format!(r#"{{"key":"{key}","number":{number}}}"#), Headers::default())
}

/// A message with this body and these headers, without an encoding.
#[allow(clippy::expect_used, reason = "this is a test's")]
pub fn message_with(key: &str, number: usize, body: impl Into<Bytes>, headers: Headers) -> Message {
    let position = Position::new(i64::try_from(number).unwrap_or(i64::MAX).saturating_add(1));
    let mut event = Event::new("conformance.tested", body).with_key(key);
    event.headers = headers;
    let encoder: Arc<dyn Encoder> = Arc::new(Plain);
    Message::encode(&encoder, position, Arc::new(event), "conformance".into())
        .expect("plain encodes everything")
}

/// Messages of one key.
pub fn batch(key: &str, numbers: Range<usize>) -> Vec<Message> {
    numbers.map(|number| message(key, number)).collect()
}

/// One letter per outcome: `D` is an ambiguous one while the destination was down.
pub fn letters(outcomes: &[Outcome]) -> String {
    let letter = |outcome: &Outcome| match outcome {
        Outcome::Acknowledged(_) => 'a',
        Outcome::Retryable(_) => 'y',
        Outcome::Failed(_) => 'f',
        Outcome::Rejected(_) => 'r',
        Outcome::Ambiguous(failure) if failure.destination_down => 'D',
        Outcome::Ambiguous(_) => '?',
        Outcome::Down(_) => 'd',
        Outcome::Untried => '-',
        Outcome::Fenced => 'x',
    };
    outcomes.iter().map(letter).collect()
}
