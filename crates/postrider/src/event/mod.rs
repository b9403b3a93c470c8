//! The event: an immutable fact that the application wrote.

mod build;
#[cfg(feature = "_writer")]
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
pub(crate) use validate::{validate, validate_action, validate_one};

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::{Position, Timestamp};

/// An event to publish. Built with [`Event::new`] and the `with_` methods, or from a type that derives `Event`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its globally unique id. [`Event::new`] creates a UUIDv7; any UUID is accepted.
    pub id: Uuid,
    /// Its type, for example `order.placed`. Independent of the name of the Rust type.
    pub event_type: String,
    /// What it is about.
    pub aggregate: Option<Aggregate>,
    /// Events of one key are delivered in order, and the key is sent with the message. `None`: events of one aggregate
    /// (type and id) are delivered in order, and its id is sent as the key; without an aggregate there is no order.
    pub key: Option<String>,
    /// The content, delivered byte for byte.
    pub payload: Bytes,
    /// Names and values that are sent with the payload.
    pub headers: Headers,
    /// When it happened.
    pub time: Timestamp,
    /// The topic to send it to, set by the writer. Routing rules, if there are any, decide instead.
    pub topic: Option<String>,
    /// The number of attempts before it is given up; overrides the relay's policy. A failure that may be the
    /// destination's fault is retried once before it counts.
    pub max_attempts: Option<u32>,
    /// It is not delivered after this time.
    pub expires_at: Option<Timestamp>,
    /// The action that caused it.
    pub action: Option<ActionContext>,
    /// The service it comes from.
    pub namespace: Option<String>,
    /// The machine or process it comes from.
    pub producer: Option<String>,
}

/// The entity that an event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Aggregate {
    /// Its type, for example `Order`.
    pub kind: String,
    /// Its id.
    pub id: String,
}

impl Aggregate {
    /// An aggregate, for example of type `Order` with the id `42`.
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }

    /// The aggregate whose events without a key of their own have this key, if there can be one.
    #[cfg(feature = "postgres")]
    pub(crate) fn of_ordering_key(key: &str) -> Option<Self> {
        let (kind, id) = key.split_once('/')?;
        let of = Self { kind: kind.replace("%2F", "/").replace("%25", "%"), id: id.to_owned() };
        (of.ordering_key() == key).then_some(of)
    }

    /// Type and id as one text, separated by the first slash. Slashes in the type are written as `%2F`.
    fn ordering_key(&self) -> String {
        match self.kind.contains(['/', '%']) {
            true => format!("{}/{}", self.kind.replace('%', "%25").replace('/', "%2F"), self.id),
            false => format!("{}/{}", self.kind, self.id),
        }
    }
}

/// The execution of an action of the application that caused an event. The executor of actions sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ActionContext {
    /// The same on all events of one execution.
    pub id: Uuid,
    /// For example `PlaceOrder`.
    pub name: String,
    /// Its parameters, as JSON.
    pub params: String,
    /// When it started.
    pub started: Timestamp,
    /// When it completed.
    pub completed: Timestamp,
}

impl Event {
    /// The size of its texts, payload, headers and action in bytes: its memory use, except for a constant.
    pub fn size_bytes(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let action = self.action.as_ref().map_or(0, |action| action.name.len() + action.params.len());
        let about = self.aggregate.as_ref().map_or(0, |about| about.kind.len() + about.id.len());
        let texts: usize = TEXT_FIELDS.iter().filter_map(|field| field.of(self)).map(str::len).sum();
        self.payload.len() + headers + action + about + texts + self.event_type.len()
    }

    /// The key of its message, if there is one: its key, else the id of its aggregate.
    pub fn message_key(&self) -> Option<&str> {
        self.key.as_deref().or_else(|| self.aggregate.as_ref().map(|aggregate| aggregate.id.as_str()))
    }

    /// The key that orders this event, if there is one: its key, else type and id of its aggregate as `type/id`. So
    /// `User` 2 does not wait for `Order` 2, although their messages have the same key.
    pub fn ordering_key(&self) -> Option<Cow<'_, str>> {
        let of_aggregate = |aggregate: &Aggregate| Cow::Owned(aggregate.ordering_key());
        self.key.as_deref().map(Cow::Borrowed).or_else(|| self.aggregate.as_ref().map(of_aggregate))
    }
}

/// An event in the outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its position.
    pub position: Position,
    /// The event, shared so that it is not copied.
    pub event: Arc<Event>,
}
