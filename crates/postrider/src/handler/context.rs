//! What a handler knows besides the payload.

use std::sync::Arc;

use uuid::Uuid;

use crate::{Event, Position};

/// The event that a handler is called for, and the attempt. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Context {
    pub(super) subscription: Arc<str>,
    pub(super) event: Arc<Event>,
    pub(super) position: Position,
    pub(super) attempt: u32,
}

impl Context {
    /// The id of the event. The same in every attempt: pass it to services that take an idempotency key.
    pub fn event_id(&self) -> Uuid {
        self.event.id
    }

    /// The whole event: time, headers, aggregate, action and the payload's bytes.
    pub fn event(&self) -> &Arc<Event> {
        &self.event
    }

    /// The position of the event in the outbox. On a table with a state per row it is assigned when the row is read.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The name of the subscription.
    pub fn subscription(&self) -> &str {
        &self.subscription
    }

    /// Which attempt this is, counted from 1. After a crash the last attempt may be repeated under its number.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}
