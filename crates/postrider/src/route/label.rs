//! What a rule puts on an event besides the destination.

use std::sync::Arc;

use crate::{Event, Headers};

/// A key, and one parcel per message, for an event whose messages are not simply the event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// Orders the event and goes with its messages, instead of the event's own key.
    pub key: Option<String>,
    /// The messages to send, each to a destination of its own; at least one.
    pub parcels: Vec<Parcel>,
}

/// One message of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Parcel {
    /// Where it goes.
    pub destination: Arc<str>,
    /// Headers that the rule adds.
    pub headers: Headers,
    /// Scheme, host and port of the destination, where it is a URL and the rule alone says them.
    pub origin: Option<Arc<str>>,
}

impl Label {
    /// The key of an event with this label, if it has one: the same for the relay that orders and for the
    /// consumer that reads.
    pub(crate) fn key<'a>(label: Option<&'a Self>, event: &'a Event) -> Option<&'a str> {
        label.and_then(|label| label.key.as_deref()).or_else(|| event.ordering_key())
    }
}
