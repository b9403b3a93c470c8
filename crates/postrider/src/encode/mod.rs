//! Encodes events to bytes. `docs/src/wire.md` lists the exact names on the wire; they do not change.

mod base64;
pub mod cloudevents;
mod envelope;
mod plain;
#[cfg(feature = "schemas")]
pub mod schema;

pub use cloudevents::{CloudEvents, CloudEventsBinary};
pub use envelope::Envelope;
pub use plain::{Plain, PlainWithActionParams};

use std::borrow::Cow;

use bytes::Bytes;

use crate::{BoxFuture, Event, Headers, Position, Result};

/// Media type of JSON.
pub const JSON: &str = "application/json";

/// Encodes an event. Implement it to add a format.
pub trait Encoder: Send + Sync + 'static {
    /// Called when the relay starts, and each time before it acquires the lease: loads what encoding needs, such as ids of a
    /// registry. Afterwards [`encode`](Self::encode) does no I/O. Must return quickly once it has succeeded. Cancel safe: a call
    /// that takes too long is dropped and repeated.
    ///
    /// # Errors
    /// [`Code::SchemaUnavailable`](crate::Code::SchemaUnavailable) if a later call may succeed: the relay does not acquire the
    /// lease, reads no events, and calls again. No attempt of an event counts. Another code at the start of the relay refuses
    /// the start.
    fn prepare(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What the configuration lacks for an event, if it lacks something. The event is then parked as unrouted, and routed
    /// again when a relay takes over. Must not do I/O or block.
    fn missing_for(&self, _event: &Event) -> Option<String> {
        None
    }

    /// Encodes one event. The same event at the same position with the same key must always give the same bytes: a
    /// consumer may receive it twice. Must not do I/O or block.
    ///
    /// # Errors
    /// [`Code::Encode`](crate::Code::Encode) if this event can never be encoded in this format. The event is
    /// then dead for the subscription, as if the destination had rejected it.
    fn encode(&self, outgoing: &Outgoing<'_>) -> Result<Encoded>;

    /// Headers to send in addition to those of the event and of its rule; they replace headers of the same name. Called
    /// only for sinks that send headers.
    fn headers(&self, _outgoing: &Outgoing<'_>) -> Headers {
        Headers::default()
    }
}

/// JSON on one line. Control characters occur only between its tokens.
fn on_one_line(json: &str) -> Cow<'_, str> {
    match json.contains(char::is_control) {
        true => json.replace(char::is_control, " ").into(),
        false => json.into(),
    }
}

/// An event that is about to be sent: the input of an encoder.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Outgoing<'a> {
    /// Its position in the outbox.
    pub position: Position,
    /// The event.
    pub event: &'a Event,
    /// The key to send: that of the event, else the id of its aggregate, unless a routing rule sets another.
    pub key: Option<&'a str>,
}

impl<'a> Outgoing<'a> {
    /// An event with its message key.
    pub fn new(position: Position, event: &'a Event) -> Self {
        Self { position, event, key: event.message_key() }
    }

    /// The same with the key of a routing rule.
    #[must_use]
    pub fn with_key(self, key: Option<&'a str>) -> Self {
        Self { key, ..self }
    }

    /// The media type of the payload, from the event's `content-type` header.
    pub fn own_content_type(&self) -> Option<&'a str> {
        let mut headers = self.event.headers.iter();
        headers.find(|(name, _)| name.eq_ignore_ascii_case("content-type")).map(|(_, value)| value)
    }
}

/// An encoded event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Encoded {
    /// The bytes to send.
    pub body: Bytes,
    /// Their media type.
    pub content_type: Cow<'static, str>,
}

impl Encoded {
    /// Bytes of this media type.
    pub fn new(body: impl Into<Bytes>, content_type: impl Into<Cow<'static, str>>) -> Self {
        Self { body: body.into(), content_type: content_type.into() }
    }
}
