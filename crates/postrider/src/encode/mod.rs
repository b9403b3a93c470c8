//! Event to bytes. The exact names on the wire are in `docs/src/wire.md`; they do not change.

mod envelope;
mod plain;

pub use envelope::Envelope;
pub use plain::Plain;

use std::borrow::Cow;

use bytes::Bytes;

use crate::{Event, Headers, Position, Result};

/// Media type of JSON.
pub const JSON: &str = "application/json";

/// Turns an event into what is sent. Implement it to add a format.
pub trait Encoder: Send + Sync + 'static {
    /// Encodes one event. The same event at the same position always gives the same bytes: a consumer may
    /// see it twice. Does no I/O and does not block.
    ///
    /// # Errors
    /// [`Code::Encode`](crate::Code::Encode) if this event cannot be told in this format, now or ever. The
    /// event is then dead for the subscription, as if the destination had rejected it.
    fn encode(&self, position: Position, event: &Event) -> Result<Encoded>;

    /// Headers to send beside the event's own; one of the same name replaces the event's. Asked for only by
    /// sinks that send headers.
    fn headers(&self, _position: Position, _event: &Event) -> Headers {
        Headers::default()
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
