//! Events from the application's types.

use serde::Serialize;

use super::Event;
use crate::Result;

/// A type of the application that is an event. Implemented by `#[derive(Event)]` (feature `derive`), or manually:
///
/// ```
/// use postrider::event::{IntoEvent, TypedEvent};
///
/// #[derive(serde::Serialize)]
/// struct OrderPlaced { order: u64 }
///
/// impl TypedEvent for OrderPlaced {
///     const TYPE: &'static str = "order.placed";
///     const AGGREGATE: Option<&'static str> = Some("Order");
///     fn aggregate_id(&self) -> Option<String> { Some(self.order.to_string()) }
/// }
///
/// let event = (&OrderPlaced { order: 42 }).into_event()?;
/// assert_eq!(event.payload, r#"{"order":42}"#);
/// # Ok::<(), postrider::Error>(())
/// ```
pub trait TypedEvent: Serialize {
    /// The event's type on the wire. Independent of the Rust name, so that a rename does not change it.
    const TYPE: &'static str;

    /// The type of the aggregate that the event is about.
    const AGGREGATE: Option<&'static str> = None;

    /// The id of the aggregate. Used only together with [`Self::AGGREGATE`].
    fn aggregate_id(&self) -> Option<String> {
        None
    }

    /// The key that orders it and is sent with the message, instead of the aggregate.
    fn key(&self) -> Option<String> {
        None
    }
}

/// The argument of a writer: an [`Event`], a reference to one, or a reference to a [`TypedEvent`].
pub trait IntoEvent {
    /// Converts to an event. A typed event gets its id and time here.
    ///
    /// # Errors
    /// [`Code::PayloadSerialise`](crate::Code::PayloadSerialise) if the payload cannot be serialised as JSON.
    fn into_event(self) -> Result<Event>;
}

impl IntoEvent for Event {
    fn into_event(self) -> Result<Event> {
        Ok(self)
    }
}

impl IntoEvent for &Event {
    fn into_event(self) -> Result<Event> {
        Ok(self.clone())
    }
}

impl<T: TypedEvent> IntoEvent for &T {
    fn into_event(self) -> Result<Event> {
        let mut event = Event::json(T::TYPE, self)?;
        event.key = self.key();
        if let (Some(kind), Some(id)) = (T::AGGREGATE, self.aggregate_id()) {
            event = event.with_aggregate(kind, id);
        }
        Ok(event)
    }
}
