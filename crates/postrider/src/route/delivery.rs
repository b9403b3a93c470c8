//! What a rule sets for an event besides the destination.

use std::borrow::Cow;
use std::sync::Arc;

use crate::{Event, Headers};

/// The key and the messages of an event that is not sent unchanged to one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// Replaces the event's key, for ordering and in its messages.
    pub key: Option<String>,
    /// The messages to send, each to a different destination; at least one.
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
    /// Scheme, host and port of the destination, if it is a URL and no value of the event can change them.
    pub origin: Option<Arc<str>>,
}

impl Delivery {
    /// The key of the messages of an event with this delivery, if there is one.
    pub(crate) fn message_key<'a>(delivery: Option<&'a Self>, event: &'a Event) -> Option<&'a str> {
        delivery.and_then(|delivery| delivery.key.as_deref()).or_else(|| event.message_key())
    }

    /// The key that orders an event with this delivery, if there is one: the rule's key, otherwise the event's.
    pub(crate) fn ordering_key<'a>(delivery: Option<&'a Self>, event: &'a Event) -> Option<Cow<'a, str>> {
        let of_rule = delivery.and_then(|delivery| delivery.key.as_deref()).map(Cow::Borrowed);
        of_rule.or_else(|| event.ordering_key())
    }
}
