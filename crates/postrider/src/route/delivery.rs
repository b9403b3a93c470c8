//! What a rule puts on an event besides the destination.

use std::borrow::Cow;
use std::sync::Arc;

use crate::{Event, Headers};

/// A key, and one copy per message, for an event whose messages are not simply the event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// Orders the event and goes with its messages, instead of the event's own key.
    pub key: Option<String>,
    /// The messages to send, each to a destination of its own; at least one.
    pub copies: Vec<DeliveryCopy>,
}

/// One message of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliveryCopy {
    /// Where it goes.
    pub destination: Arc<str>,
    /// Headers that the rule adds.
    pub headers: Headers,
    /// Scheme, host and port of the destination, where it is a URL and the rule alone says them.
    pub origin: Option<Arc<str>>,
}

impl Delivery {
    /// The key that messages of an event with this delivery carry, if there is one.
    pub(crate) fn message_key<'a>(delivery: Option<&'a Self>, event: &'a Event) -> Option<&'a str> {
        delivery.and_then(|delivery| delivery.key.as_deref()).or_else(|| event.message_key())
    }

    /// What orders an event with this delivery, if something does: a key that a rule gave orders as it is.
    pub(crate) fn ordering_key<'a>(delivery: Option<&'a Self>, event: &'a Event) -> Option<Cow<'a, str>> {
        let of_rule = delivery.and_then(|delivery| delivery.key.as_deref()).map(Cow::Borrowed);
        of_rule.or_else(|| event.ordering_key())
    }
}
