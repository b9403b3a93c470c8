//! Calls handlers without a relay and without a database.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postrider::encode::{Encoder, Envelope};
use postrider::handler::{Handlers, NOT_TAKEN, SKIPPED};
use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::{IntoEvent, Position};
use uuid::Uuid;

/// Calls the functions of [`Handlers`] one event at a time, as a relay would: with a context, the timeout, and panics as
/// failures. There is no database, no retry and no order; the test decides what is delivered, and how often.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use postrider::Event;
/// use postrider::handler::{Context, HandlerError, Handlers, Result};
/// use postrider_testkit::{Handled, HandlerTest};
///
/// #[derive(Event, serde::Serialize, serde::Deserialize)]
/// #[event(type = "order.placed")]
/// struct OrderPlaced {
///     email: String,
/// }
///
/// async fn send_mail(placed: OrderPlaced, cx: Context) -> Result {
///     if !placed.email.contains('@') {
///         return Err(HandlerError::dead("not an address"));
///     }
///     if cx.attempt() == 1 {
///         return Err("the mail server is busy".into());
///     }
///     Ok(())
/// }
///
/// let test = HandlerTest::new("mail", Handlers::new().on(send_mail));
/// let bad = test.deliver(&OrderPlaced { email: "nowhere".into() }).await;
/// assert_eq!(bad, Handled::Dead { reason: "not an address".into() });
///
/// let event = Event::new("order.placed", r#"{"email": "ada@example.org"}"#);
/// assert_eq!(test.deliver(&event).await, Handled::Retry { reason: "the mail server is busy".into(), after: None });
/// assert_eq!(test.deliver(&event).await, Handled::Done); // the second attempt
/// # }
/// ```
///
/// Timeouts are tokio's time: in a test with `#[tokio::test(start_paused = true)]` they pass at once.
pub struct HandlerTest {
    name: Arc<str>,
    sink: Box<dyn Sink>,
    encoder: Arc<dyn Encoder>,
    /// How often each event was delivered.
    deliveries: Mutex<HashMap<Uuid, u32>>,
}

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handled {
    /// The function returned `Ok(())`.
    Done,
    /// The function skipped the event: it is done, without an effect.
    Skipped,
    /// No function takes events of this type.
    NotTaken,
    /// The attempt failed: an error, a panic, a timeout, or a payload that is not of the type. A relay tries again.
    Retry {
        /// Why.
        reason: String,
        /// The delay that the function asked for.
        after: Option<Duration>,
    },
    /// No attempt can succeed. A relay gives the event up.
    Dead {
        /// Why.
        reason: String,
    },
}

impl HandlerTest {
    /// For the functions of a subscription with this name.
    ///
    /// # Panics
    /// If a relay would not start with these handlers, with the reason.
    #[track_caller]
    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    pub fn new(name: &str, handlers: Handlers) -> Self {
        let sink = handlers.into_test_sink(name).unwrap_or_else(|error| panic!("{error}"));
        Self { name: name.into(), sink, encoder: Arc::new(Envelope), deliveries: Mutex::default() }
    }

    /// Calls the function for an event and returns when it has ended. An event that is delivered again, with the same id,
    /// is the next attempt.
    ///
    /// # Panics
    /// If the event cannot be serialised.
    #[allow(clippy::panic, reason = "a test that cannot go on fails")]
    pub async fn deliver(&self, event: impl IntoEvent) -> Handled {
        let event = Arc::new(event.into_event().unwrap_or_else(|error| panic!("{error}")));
        let (attempt, position) = self.count(event.id);
        let message = Message::encode(&self.encoder, position, event, self.name.clone());
        let mut message = message.unwrap_or_else(|error| panic!("{error}"));
        message.attempt = attempt;
        let outcome = self.sink.publish(&[message]).await.pop();
        match outcome {
            Some(Outcome::Acknowledged(receipt)) if receipt == Receipt::default() => Handled::Done,
            Some(Outcome::Acknowledged(receipt)) if receipt == Receipt::new(SKIPPED) => Handled::Skipped,
            Some(Outcome::Acknowledged(receipt)) if receipt == Receipt::new(NOT_TAKEN) => Handled::NotTaken,
            Some(Outcome::Failed(failure)) => {
                Handled::Retry { reason: failure.message, after: failure.retry_after }
            }
            Some(Outcome::Rejected(failure)) => Handled::Dead { reason: failure.message },
            other => panic!("a handler has no such outcome: {other:?}"),
        }
    }

    /// The attempt that this delivery is, and a position for it.
    fn count(&self, event: Uuid) -> (u32, Position) {
        let mut deliveries = self.deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        let attempt = deliveries.entry(event).or_default();
        *attempt += 1;
        (*attempt, Position::new(deliveries.len() as i64))
    }
}

impl std::fmt::Debug for HandlerTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerTest").field("name", &self.name).finish_non_exhaustive()
    }
}
