//! The event: an immutable fact that the application wrote.

mod build;
#[cfg(any(feature = "_mysql", feature = "_postgres", feature = "_sqlite"))]
pub(crate) mod columns;
mod headers;
mod text_fields;
mod trace;
mod typed;
mod validate;

pub use headers::Headers;
pub(crate) use text_fields::{TEXT_FIELDS, TextField};
pub use trace::{TRACEPARENT, TRACESTATE, TraceContext, TraceSource};
pub use typed::{IntoEvent, TypedEvent};
#[cfg(feature = "relay")]
pub(crate) use validate::{RESERVED_PREFIX, check_header_name};
pub(crate) use validate::{validate, validate_one};

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::{Position, Timestamp};

/// A fact to publish. Built with [`Event::new`] and the `with_` methods, or from a type that
/// derives `Event`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Which event this is, everywhere and forever. UUIDv7 from us; any UUID is accepted.
    pub id: Uuid,
    /// What kind of fact, for example `order.placed`. Outlives the name of the Rust type.
    pub event_type: String,
    /// What the fact is about.
    pub aggregate: Option<Aggregate>,
    /// Events of one key are delivered in order, and the key goes with the message. `None`: events of one aggregate,
    /// by type and id, are delivered in order and its id goes with the message; without one there is no order.
    pub key: Option<String>,
    /// The content, carried byte for byte.
    pub payload: Bytes,
    /// Names and values that travel beside the payload.
    pub headers: Headers,
    /// When it happened.
    pub time: Timestamp,
    /// Where to send it, if the writer decides that and no routing rule says otherwise.
    pub topic: Option<String>,
    /// Attempts before it is given up; overrides the relay's policy. A failure that may be the destination's is tried once
    /// more before an attempt counts.
    pub max_attempts: Option<u32>,
    /// Not to be delivered after this.
    pub expires_at: Option<Timestamp>,
    /// The action it came from.
    pub action: Option<Action>,
    /// The service it came from.
    pub namespace: Option<String>,
    /// The machine or process it came from.
    pub producer: Option<String>,
}

/// The thing an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// Its kind, for example `Order`.
    pub kind: String,
    /// Which one.
    pub id: String,
}

impl Aggregate {
    /// Type and id as one text, in which the first slash stands between them: those of the type are written `%2F`.
    fn ordering_key(&self) -> String {
        match self.kind.contains(['/', '%']) {
            true => format!("{}/{}", self.kind.replace('%', "%25").replace('/', "%2F"), self.id),
            false => format!("{}/{}", self.kind, self.id),
        }
    }
}

/// The action of the application that caused an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// The same on all events of one execution.
    pub id: Uuid,
    /// For example `PlaceOrder`.
    pub name: String,
    /// What it was called with, as JSON.
    pub params: String,
    /// When it began.
    pub started: Timestamp,
    /// When it was done.
    pub completed: Timestamp,
}

impl Event {
    /// Bytes of all its texts, its payload, headers and action included: what it takes in memory, besides a constant.
    pub fn size_bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let action = self.action.as_ref().map_or(0, |action| action.name.len() + action.params.len());
        let about = self.aggregate.as_ref().map_or(0, |about| about.kind.len() + about.id.len());
        let texts: usize = TEXT_FIELDS.iter().filter_map(|field| field.of(self)).map(str::len).sum();
        self.payload.len() + headers + action + about + texts + self.event_type.len()
    }

    /// The key that its message carries, if there is one: its own, else the id of its aggregate.
    pub fn message_key(&self) -> Option<&str> {
        self.key.as_deref().or_else(|| self.aggregate.as_ref().map(|aggregate| aggregate.id.as_str()))
    }

    /// What orders this event, if something does: its own key, else type and id of its aggregate, as `type/id`. So
    /// `User` 2 does not wait for `Order` 2, though their messages carry the same key.
    pub fn ordering_key(&self) -> Option<Cow<'_, str>> {
        let of_aggregate = |aggregate: &Aggregate| Cow::Owned(aggregate.ordering_key());
        self.key.as_deref().map(Cow::Borrowed).or_else(|| self.aggregate.as_ref().map(of_aggregate))
    }
}

/// An event as it stands in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Where it stands.
    pub position: Position,
    /// What was written. Shared from here on: events are not copied.
    pub event: Arc<Event>,
}
