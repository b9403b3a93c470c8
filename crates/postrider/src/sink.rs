//! Where events go. Implement [`Sink`] to add a destination; the contract is on its one method.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::encode::{Encoded, Encoder};
use crate::{BoxFuture, Event, Headers, Position, Result};

/// A destination that takes batches of messages and says of each what became of it.
pub trait Sink: Send + Sync + 'static {
    /// Publishes a batch and returns one outcome per message, in the batch's order.
    ///
    /// # Contract
    /// - [`Outcome::Acknowledged`] is said only of a message the destination holds as durably as it ever
    ///   will: after this, the relay may forget the event.
    /// - A message whose fate is unknown is [`Outcome::Ambiguous`], never acknowledged and never retryable.
    /// - Messages are written in the batch's order. Several of one key are in a batch only if
    ///   [`Capabilities::prefix_safe`] says that they may be.
    /// - The relay drops the future at its publish timeout, and when it loses its lease. What was not
    ///   written by then may still be written, or not; nothing else may break.
    /// - Several calls run at once, never with messages of the same key.
    /// - An outage is said as [`Outcome::Down`] where the sink can tell; the relay then waits and probes.
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>>;

    /// What the relay may rely on.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Called once, after the last publish of a relay that shuts down in good order.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A sink may be shared with those who want to look at it.
impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        (**self).publish(batch)
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        (**self).close()
    }
}

/// What a sink promises beyond the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Within one batch, once a message of a key is not acknowledged, no later message of that key
    /// becomes visible. Then a batch may hold several messages of one key.
    pub prefix_safe: bool,
}

impl Capabilities {
    /// Capabilities of a sink that stops at the first message it cannot write.
    pub const PREFIX_SAFE: Self = Self { prefix_safe: true };
}

/// An event on its way: routed and encoded.
#[derive(Clone)]
#[non_exhaustive]
pub struct Message {
    /// The event it came from.
    pub event: Arc<Event>,
    /// Where that event stands in the outbox.
    pub position: Position,
    /// Name of the topic, subject, queue or address to go to.
    pub destination: Arc<str>,
    /// The bytes to send.
    pub body: Bytes,
    /// Their media type.
    pub content_type: Cow<'static, str>,
    encoder: Arc<dyn Encoder>,
}

impl Message {
    /// Encodes an event for a destination.
    ///
    /// # Errors
    /// What the encoder says; then the event can never be sent in this format.
    pub fn encode(
        encoder: &Arc<dyn Encoder>,
        position: Position,
        event: Arc<Event>,
        destination: Arc<str>,
    ) -> Result<Self> {
        let Encoded { body, content_type } = encoder.encode(position, &event)?;
        Ok(Self { event, position, destination, body, content_type, encoder: encoder.clone() })
    }

    /// The key that orders it.
    pub fn key(&self) -> Option<&str> {
        self.event.ordering_key()
    }

    /// Headers to send: the event's own and those the encoder adds. Made when asked for, as not every
    /// destination has headers.
    pub fn headers(&self) -> Headers {
        let mut headers = self.event.headers.clone();
        headers.extend(self.encoder.headers(self.position, &self.event));
        headers
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("position", &self.position)
            .field("destination", &self.destination)
            .field("event", &self.event)
            .field("content_type", &self.content_type)
            .finish_non_exhaustive()
    }
}

/// What became of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The destination holds it durably.
    Acknowledged(Receipt),
    /// It did not get there, and it may not be the message's fault: no answer, connection lost, 5xx, 429.
    /// Tried again; counts against the message only if the destination proves to be up.
    Retryable(Failure),
    /// It is this message's fault and may pass: a handler's error. Counts, tried again.
    Failed(Failure),
    /// It is this message's fault and will not pass: too large, unroutable, unencodable. Dead at once.
    Rejected(Failure),
    /// It may have been written. Tried again; counts as a possible duplicate.
    Ambiguous(Failure),
    /// The destination is down. Counts against no message.
    Down(Failure),
    /// Not sent, because of another message of the batch. Counts against nobody.
    Untried,
}

/// Where the destination put a message, in the destination's own words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Receipt {
    /// For example `partition 3 offset 17`; empty when there is nothing to say.
    pub text: String,
}

impl Receipt {
    /// A receipt with the destination's words.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// Why a message was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// What the destination said. Must hold no secret.
    pub message: String,
    /// How long the destination asked us to wait.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure with what the destination said.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), retry_after: None }
    }
}
