//! Events from the application's own types.

use serde::Serialize;

use super::Event;
use crate::Result;

/// A type of the application that is an event. Implemented by `#[derive(Event)]` (feature `derive`), or by hand:
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
    /// The event's type on the wire. Not taken from the Rust name, so that a rename changes nothing.
    const TYPE: &'static str;

    /// The kind of thing the event is about.
    const AGGREGATE: Option<&'static str> = None;

    /// Which thing it is about. Used only together with [`Self::AGGREGATE`].
    fn aggregate_id(&self) -> Option<String> {
        None
    }

    /// What orders it and goes with the message, if that is not the aggregate.
    fn key(&self) -> Option<String> {
        None
    }
}

/// What a writer takes: an [`Event`], a borrowed one, or a reference to a [`TypedEvent`].
pub trait IntoEvent {
    /// Makes the event. A typed event gets its id and time here.
    ///
    /// # Errors
    /// [`Code::PayloadSerialise`](crate::Code::PayloadSerialise) if the payload cannot become JSON.
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
