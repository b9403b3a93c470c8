//! Event to bytes. The exact names on the wire are in `docs/src/wire.md`; they do not change.

mod base64;
pub mod cloudevents;
mod envelope;
mod plain;

pub use cloudevents::{CloudEvents, CloudEventsBinary};
pub use envelope::Envelope;
pub use plain::Plain;

use std::borrow::Cow;

use bytes::Bytes;

use crate::{Event, Headers, Position, Result};

/// Media type of JSON.
pub const JSON: &str = "application/json";

/// Turns an event into what is sent. Implement it to add a format.
pub trait Encoder: Send + Sync + 'static {
    /// Encodes one event. The same event at the same position with the same key always gives the same
    /// bytes: a consumer may see it twice. Does no I/O and does not block.
    ///
    /// # Errors
    /// [`Code::Encode`](crate::Code::Encode) if this event cannot be told in this format, now or ever. The
    /// event is then dead for the subscription, as if the destination had rejected it.
    fn encode(&self, outgoing: &Outgoing<'_>) -> Result<Encoded>;

    /// Headers to send beside the event's own and its rule's; one of the same name replaces theirs. Asked for only by
    /// sinks that send headers.
    fn headers(&self, _outgoing: &Outgoing<'_>) -> Headers {
        Headers::default()
    }
}

/// An event that is about to be sent: what an encoder knows of it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Outgoing<'a> {
    /// Where it stands in the outbox.
    pub position: Position,
    /// The event.
    pub event: &'a Event,
    /// The key that goes with it: its own, else the id of its aggregate, unless a routing rule gave it another.
    pub key: Option<&'a str>,
}

impl<'a> Outgoing<'a> {
    /// An event with its own key.
    pub fn new(position: Position, event: &'a Event) -> Self {
        Self { position, event, key: event.message_key() }
    }

    /// The same with the key that a rule gave it.
    #[must_use]
    pub fn with_key(self, key: Option<&'a str>) -> Self {
        Self { key, ..self }
    }

    /// The media type that the writer gave the payload.
    pub fn own_content_type(&self) -> Option<&'a str> {
        let mut headers = self.event.headers.iter();
        headers.find(|(name, _)| name.eq_ignore_ascii_case("content-type")).map(|(_, value)| value)
    }
}

/// An event as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes to send.
    pub body: Bytes,
    /// Their media type.
    pub content_type: Cow<'static, str>,
}
