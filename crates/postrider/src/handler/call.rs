//! A function of the program, without its types.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::{Context, HandlerError, Result};
use crate::{BoxFuture, Event, TypedEvent};

/// What a handler's function takes: a [`TypedEvent`] that can be deserialized from the JSON payload, or `Arc<Event>`
/// for events of every type, as they are.
pub trait FromEvent: Sized + Send + 'static {
    /// The type of the events; `None` for every type.
    const TYPE: Option<&'static str>;

    /// Makes the value from an event of that type.
    ///
    /// # Errors
    /// The payload is not what the type expects. That counts as a failed attempt: another version of the program may
    /// be able to read it.
    fn from_event(event: &Arc<Event>) -> std::result::Result<Self, HandlerError>;
}

impl<T: TypedEvent + DeserializeOwned + Send + 'static> FromEvent for T {
    const TYPE: Option<&'static str> = Some(T::TYPE);

    fn from_event(event: &Arc<Event>) -> std::result::Result<Self, HandlerError> {
        serde_json::from_slice(&event.payload).map_err(|error| {
            HandlerError::from(format!("the payload is not a {}: {error}", std::any::type_name::<T>()))
        })
    }
}

impl FromEvent for Arc<Event> {
    const TYPE: Option<&'static str> = None;

    fn from_event(event: &Arc<Event>) -> std::result::Result<Self, HandlerError> {
        Ok(event.clone())
    }
}

/// A function of the program that takes any event of its type.
pub(super) struct HandlerFn(Box<Erased>);

type Erased = dyn Fn(Arc<Event>, Context) -> BoxFuture<'static, Result> + Send + Sync;

impl HandlerFn {
    pub(super) fn new<E, F, R>(function: F) -> Self
    where
        E: FromEvent,
        F: Fn(E, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result> + Send + 'static,
    {
        let function = Arc::new(function);
        Self(Box::new(move |event, cx| {
            let function = function.clone();
            // Everything runs when the future is polled, where a panic is caught.
            Box::pin(async move { function(E::from_event(&event)?, cx).await })
        }))
    }

    /// Starts the function for an event. Nothing runs before the future is polled.
    pub(super) fn start(&self, event: Arc<Event>, cx: Context) -> BoxFuture<'static, Result> {
        (self.0)(event, cx)
    }
}

impl fmt::Debug for HandlerFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandlerFn")
    }
}
