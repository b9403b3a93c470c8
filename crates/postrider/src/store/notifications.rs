//! Fanning events out to handlers: the part of layout `eventlog` that the other layouts do not have.

use std::sync::Arc;

use super::{Start, Store};
use crate::layout::Handler;
use crate::{BoxFuture, Result};

/// An outbox whose events are fanned out: one notification per event and handler. See adr/0066-eventlog.md.
pub trait Notifications: Send + Sync {
    /// Stores the handler's name, aliases and types, so that every relay fans events out to it from now on. Types that
    /// were stored before stay. Returns whether the handler is new. Waits for a fan-out in progress: every
    /// event that is fanned out after this has a notification for the handler.
    ///
    /// # Errors
    /// [`Code::StartRefused`](crate::Code::StartRefused) for a start at a position: this layout has none.
    fn register(&self, handler: &Handler, start: Start) -> BoxFuture<'_, Result<bool>>;

    /// A store that handles the notifications of one handler.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the database does not have the layout.
    fn store_of(&self, handler: Handler) -> Result<Arc<dyn Store>>;

    /// Fans the oldest events out that are not fanned out yet, in one transaction: inserts their notifications and sets
    /// `delivered`. `excluded` are the ids of events that failed before. If the database refuses the notification of one
    /// event, the others are fanned out without it.
    fn fan_out<'a>(&'a self, events_max: usize, excluded: &'a [String]) -> BoxFuture<'a, Result<FannedOut>>;

    /// Fans events out that another program fanned out without a notification for a handler registered here.
    fn fan_out_missed<'a>(
        &'a self,
        events_max: usize,
        excluded: &'a [String],
    ) -> BoxFuture<'a, Result<FannedOut>>;
}

/// What a fan-out did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FannedOut {
    /// Events that were fanned out.
    pub events: u64,
    /// Notifications that were inserted. Fewer than events times handlers if another program inserted some.
    pub notifications: u64,
    /// There may be more events.
    pub more: bool,
    /// Another relay is fanning out: nothing was done.
    pub busy: bool,
    /// Events whose notification the database refused, and why.
    pub refused: Vec<(String, String)>,
}

/// What an operator checks in an outbox with notifications.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HandlerCheck {
    /// The table of notifications exists.
    pub has_notifications: bool,
    /// The index of the fan-out exists.
    pub has_index: bool,
    /// Open notifications by name, in the order of the names.
    pub open: Vec<OpenNotifications>,
}

/// Notifications under one name that are neither handled nor expired.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenNotifications {
    /// The name.
    pub handler: String,
    /// How many.
    pub notifications: u64,
    /// A handler with this name is registered in this outbox.
    pub is_registered: bool,
    /// The handler whose earlier name it is.
    pub alias_of: Option<String>,
}
