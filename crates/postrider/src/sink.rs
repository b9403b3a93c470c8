//! Sinks: the ways to a destination. Implement [`Sink`] to add one; the contract is on its one required method.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::encode::{Encoded, Encoder, Outgoing};
use crate::event::RESERVED_PREFIX;
use crate::ledger::Redelivery;
use crate::route::{Delivery, DeliveryCopy};
use crate::{BoxFuture, Event, Headers, Position, Result};

/// Takes batches of messages for its destinations, and reports an outcome for each.
pub trait Sink: Send + Sync + 'static {
    /// Publishes a batch and returns one outcome per message, in the batch's order.
    ///
    /// # Contract
    /// - [`Outcome::Acknowledged`] means that the destination has stored the message as durably as it ever will:
    ///   afterwards, the relay may forget the event.
    /// - A message with an unknown outcome is [`Outcome::Ambiguous`], never acknowledged and never retryable.
    /// - Messages are written in the batch's order. A batch contains several events of one key only if
    ///   [`Capabilities::prefix_safe`] allows it. It may contain an event several times, each time for another
    ///   destination.
    /// - Cancel safety: the relay drops the future at its publish timeout, and when it loses its lease. Messages that
    ///   are not written by then may or may not be written later; the sink must stay usable.
    /// - Several calls run at once, never with messages of the same key.
    /// - The sink reports an outage as [`Outcome::Down`] if it can recognise one; the relay then waits and probes.
    /// - If the sink panics, the relay treats the messages as [`Outcome::Ambiguous`] and sends each of them alone, unless
    ///   it has [reported outcomes early](Self::publish_each): then it does not send the others alone.
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>>;

    /// As [`publish`](Self::publish), for a sink whose messages do not depend on each other: it may report outcomes
    /// as soon as they are known, and later events of those keys then do not wait for the rest of the batch. The result
    /// contains all outcomes, also those that were reported early. Not for a sink that is
    /// [prefix safe](Capabilities::prefix_safe).
    fn publish_each<'a>(
        &'a self,
        batch: &'a [Message],
        _early: &'a EarlyOutcomes,
    ) -> BoxFuture<'a, Vec<Outcome>> {
        self.publish(batch)
    }

    /// Called each time the relay was granted the lease, before it publishes anything with it. A destination
    /// that supports fencing fences the previous owner here, and reports [`Outcome::Fenced`] to it. This must
    /// complete well before the lease, whose duration is given, expires.
    ///
    /// # Errors
    /// Why the takeover failed, for example [`Code::SinkFailed`](crate::Code::SinkFailed) in an outage. The
    /// relay then does not start to publish; it acquires the lease and calls again.
    fn take_over(&self, _lease: Duration) -> BoxFuture<'_, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// What the relay may rely on beyond the contract.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// Called once, after the last publish of a relay that shuts down cleanly.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A sink may be shared, for example with a test that inspects it.
impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        (**self).publish(batch)
    }

    fn publish_each<'a>(
        &'a self,
        batch: &'a [Message],
        early: &'a EarlyOutcomes,
    ) -> BoxFuture<'a, Vec<Outcome>> {
        (**self).publish_each(batch, early)
    }

    fn take_over(&self, lease: Duration) -> BoxFuture<'_, Result<()>> {
        (**self).take_over(lease)
    }

    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        (**self).close()
    }
}

/// Takes outcomes of a batch before the whole batch is done. See [`Sink::publish_each`].
#[derive(Default)]
pub struct EarlyOutcomes {
    report: Option<EarlyReport>,
    reported: AtomicBool,
}

/// Receives the outcomes of messages by their index in the batch.
type EarlyReport = Box<dyn Fn(Vec<(usize, Outcome)>) + Send + Sync>;

impl EarlyOutcomes {
    pub(crate) fn new(report: impl Fn(Vec<(usize, Outcome)>) + Send + Sync + 'static) -> Self {
        Self { report: Some(Box::new(report)), reported: AtomicBool::new(false) }
    }

    /// Reports the outcomes of messages by their index in the batch. An outcome is final: a later one for the same
    /// message is ignored.
    pub fn report(&self, outcomes: Vec<(usize, Outcome)>) {
        if let Some(report) = &self.report {
            self.reported.store(true, Ordering::Relaxed);
            report(outcomes);
        }
    }

    /// Whether some outcome was reported.
    pub(crate) fn has_reported(&self) -> bool {
        self.reported.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for EarlyOutcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlyOutcomes").field("has_reported", &self.has_reported()).finish_non_exhaustive()
    }
}

/// What a sink promises beyond the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Within one batch, once a message of a key is not acknowledged, no later message of that key
    /// becomes visible. Then a batch may contain several messages of one key.
    pub prefix_safe: bool,
    /// Probes of a destination that is down are cheap and may be sent at least this often, regardless of the
    /// policy: the sink's client checks by itself whether the destination is up again.
    pub probe_max: Option<Duration>,
    /// How the sink interprets the destinations from routing.
    pub destinations: Destinations,
    /// The sink works on each message by itself, on at most this many at once: the relay sends no more, and does not
    /// wait until a batch is full. For a sink that [reports outcomes early](Sink::publish_each).
    pub in_flight_max: Option<NonZeroUsize>,
    /// The sink limits the time of each message itself, to at most this. The relay's publish timeout is then longer.
    pub message_timeout: Option<Duration>,
}

/// How a sink interprets the destinations from routing. The router escapes event values accordingly, and
/// rejects rules that do not fit the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Destinations {
    /// Names such as topics: any text.
    #[default]
    Names,
    /// The sink sends everything to one destination. A destination from a rule is never used.
    Fixed,
    /// MQTT topics. Every value of an event becomes one level, or a part of one: `/`, `+`, `#`, `$`, `%` and control
    /// characters are percent-encoded. A topic that is a single field, and an event's own topic, are not; the sink checks
    /// them itself.
    Topics,
    /// URLs. Every value of an event becomes one path segment or one query value.
    Urls {
        /// Whether an event may choose scheme, host and port. The sink checks such a URL itself: it is one whose
        /// [`Message::origin`] is `None`.
        hosts_from_events: bool,
    },
}

impl Capabilities {
    /// Capabilities of a sink that stops at the first message it cannot write.
    pub const PREFIX_SAFE: Self = Self {
        prefix_safe: true,
        probe_max: None,
        destinations: Destinations::Names,
        in_flight_max: None,
        message_timeout: None,
    };

    /// With destinations of this kind.
    #[must_use]
    pub const fn with_destinations(mut self, destinations: Destinations) -> Self {
        self.destinations = destinations;
        self
    }

    /// With probes at least this often.
    #[must_use]
    pub const fn with_probe_max(mut self, probe_max: Duration) -> Self {
        self.probe_max = Some(probe_max);
        self
    }

    /// With at most this many messages at once, each worked on by itself.
    #[must_use]
    pub const fn with_in_flight_max(mut self, in_flight_max: NonZeroUsize) -> Self {
        self.in_flight_max = Some(in_flight_max);
        self
    }

    /// With an outcome for each message within this time.
    #[must_use]
    pub const fn with_message_timeout(mut self, message_timeout: Duration) -> Self {
        self.message_timeout = Some(message_timeout);
        self
    }
}

/// Prefix of an event's header that cannot be sent under its own name.
pub const RENAMED_HEADER_PREFIX: &str = "postrider-header-";

/// The name under which an event's header is sent.
fn sent_name(name: &str) -> Cow<'_, str> {
    let reserved = name.get(..RESERVED_PREFIX.len());
    match reserved.is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX)) {
        true => format!("{RENAMED_HEADER_PREFIX}{name}").into(),
        false => name.into(),
    }
}

/// The header of a message that an operator asked for: `retry` for an event that was dead, `replay` for one that was
/// delivered before. Such a message may arrive after later events of its key.
pub const REDELIVERY_HEADER: &str = "postrider-redelivery";

/// A routed and encoded event.
#[derive(Clone)]
#[non_exhaustive]
pub struct Message {
    /// The event it came from.
    pub event: Arc<Event>,
    /// The position of that event in the outbox.
    pub position: Position,
    /// Name of the topic, subject, queue or URL to send it to.
    pub destination: Arc<str>,
    /// The bytes to send.
    pub body: Bytes,
    /// Their media type.
    pub content_type: Cow<'static, str>,
    /// Which attempt to deliver the event this is, counted from 1. Attempts that do not count against the event, for
    /// example during an outage of the destination, do not raise it.
    pub attempt: u32,
    /// An operator asked to deliver the event again, so it may arrive after later events of its key. Sent as the header
    /// [`REDELIVERY_HEADER`].
    pub redelivery: Option<Redelivery>,
    encoder: Arc<dyn Encoder>,
    /// What a routing rule set for the event, and the index of this message among its copies.
    delivery: Option<(Arc<Delivery>, usize)>,
}

impl Message {
    /// Encodes an event for a destination.
    ///
    /// # Errors
    /// The encoder's error; the event can never be sent in this format.
    pub fn encode(
        encoder: &Arc<dyn Encoder>,
        position: Position,
        event: Arc<Event>,
        destination: Arc<str>,
    ) -> Result<Self> {
        let Encoded { body, content_type } = encoder.encode(&Outgoing::new(position, &event))?;
        let encoder = encoder.clone();
        Ok(Self {
            event,
            position,
            destination,
            body,
            content_type,
            attempt: 1,
            redelivery: None,
            encoder,
            delivery: None,
        })
    }

    /// Encodes an event with a delivery once, and creates one message for each of these copies, by index.
    ///
    /// # Errors
    /// As [`Message::encode`].
    pub(crate) fn encode_copies(
        encoder: &Arc<dyn Encoder>,
        position: Position,
        event: &Arc<Event>,
        delivery: &Arc<Delivery>,
        copies: &[usize],
    ) -> Result<Vec<Self>> {
        let key = Delivery::message_key(Some(delivery), event);
        let Encoded { body, content_type } = encoder.encode(&Outgoing::new(position, event).with_key(key))?;
        let numbered = copies.iter().filter_map(|number| Some((*number, delivery.copies.get(*number)?)));
        let message = |(number, copy): (usize, &DeliveryCopy)| Self {
            event: event.clone(),
            position,
            destination: copy.destination.clone(),
            body: body.clone(),
            content_type: content_type.clone(),
            attempt: 1,
            redelivery: None,
            encoder: encoder.clone(),
            delivery: Some((delivery.clone(), number)),
        };
        Ok(numbered.map(message).collect())
    }

    /// The same message, as this attempt.
    pub(crate) fn with_attempt(mut self, attempt: u32, redelivery: Option<Redelivery>) -> Self {
        (self.attempt, self.redelivery) = (attempt, redelivery);
        self
    }

    /// The key to send with it: that of the routing rule, otherwise the event's, otherwise the id of its aggregate.
    pub fn key(&self) -> Option<&str> {
        Delivery::message_key(self.delivery.as_ref().map(|(delivery, _)| &**delivery), &self.event)
    }

    /// The key that orders it, for a sink that stops at a failed message: only later messages with the same ordering
    /// key have to wait. As [`key`](Self::key), except that without a key it consists of the aggregate's type and id.
    pub fn ordering_key(&self) -> Option<Cow<'_, str>> {
        Delivery::ordering_key(self.delivery.as_ref().map(|(delivery, _)| &**delivery), &self.event)
    }

    /// Scheme, host and port of its destination according to the routing rule, if the sink uses URLs
    /// ([`Destinations::Urls`]) and no event can change them. `None`: the event may have chosen the host.
    pub fn origin(&self) -> Option<&str> {
        let (delivery, number) = self.delivery.as_ref()?;
        delivery.copies.get(*number)?.origin.as_deref()
    }

    /// Headers to send: those of the event, of its routing rule and of the encoder. Later ones replace earlier ones
    /// with the same name, ignoring case. Computed at each call, because not every destination has headers.
    ///
    /// A header of the event whose name begins with `postrider-`, which only plain SQL can store, is sent with
    /// [`RENAMED_HEADER_PREFIX`] before its name: a header named `postrider-id` always comes from the relay.
    pub fn headers(&self) -> Headers {
        let outgoing = Outgoing::new(self.position, &self.event).with_key(self.key());
        let mut added = Headers::default();
        let delivery = self.delivery.as_ref();
        if let Some(copy) = delivery.and_then(|(delivery, number)| delivery.copies.get(*number)) {
            added.extend(copy.headers.clone());
        }
        added.extend(self.encoder.headers(&outgoing));
        if let Some(redelivery) = self.redelivery {
            added.set(REDELIVERY_HEADER, redelivery.as_str());
        }
        let mut headers: Headers = self
            .event
            .headers
            .iter()
            .map(|(name, value)| (sent_name(name), value))
            .filter(|(name, _)| !added.iter().any(|(ours, _)| ours.eq_ignore_ascii_case(name)))
            .collect();
        headers.extend(added);
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

/// The outcome of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The destination has stored it durably.
    Acknowledged(Receipt),
    /// It was not written, and the message may not be the cause: connection lost before sending, 5xx. It is retried.
    /// The failure counts as an attempt only if the destination proves to be up.
    Retryable(Failure),
    /// It was not written, and the message is the cause, but a retry may succeed: a handler's error. Counts as an
    /// attempt.
    Failed(Failure),
    /// It was not written, and no retry can succeed: too large, not encodable. The event is dead immediately.
    Rejected(Failure),
    /// It may have been written: no answer, connection lost after sending. It is retried and may be a duplicate.
    /// Whether the failure counts as an attempt is decided as for [`Outcome::Retryable`]; it does not if
    /// [`Failure::destination_down`] is set.
    Ambiguous(Failure),
    /// The destination is down. Not an attempt of any message.
    Down(Failure),
    /// Not sent, because of another message of the batch. Not an attempt.
    Untried,
    /// The destination accepts nothing more from this relay: another relay has taken over, or must be assumed
    /// to have. The lease is lost.
    Fenced,
}

/// Where the destination stored a message, as the destination describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Receipt {
    /// For example `partition 3 offset 17`; empty if the destination reports nothing.
    pub text: String,
}

impl Receipt {
    /// A receipt with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// Why a message was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The destination's message. Must not contain a secret.
    pub message: String,
    /// The delay that the destination asked for.
    pub retry_after: Option<Duration>,
    /// The destination was down when it happened, so the failure does not count as an attempt. Only for
    /// [`Outcome::Ambiguous`]: a message that was certainly not written is [`Outcome::Down`].
    pub destination_down: bool,
    /// With [`Outcome::Down`]: the destination refuses all further messages, so the subscription is paused until an
    /// operator resumes it.
    pub pause: bool,
    /// The destination acknowledged nothing of the batch after this failure. Acknowledgements before it, of this batch
    /// or of a concurrent one, do not prove that the destination was up when it happened. For sinks that get the
    /// responses for a batch one by one.
    pub after_last_acknowledgement: bool,
}

impl Failure {
    /// A failure with the destination's message.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            retry_after: None,
            destination_down: false,
            pause: false,
            after_last_acknowledgement: false,
        }
    }

    /// The same failure, with the delay that the destination asked for.
    #[must_use]
    pub fn with_retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The same failure, while the destination was down.
    #[must_use]
    pub fn while_down(mut self) -> Self {
        self.destination_down = true;
        self
    }

    /// The same failure, after which the subscription is paused.
    #[must_use]
    pub fn pausing(mut self) -> Self {
        self.pause = true;
        self
    }
}
