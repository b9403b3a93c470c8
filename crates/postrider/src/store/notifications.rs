//! Fanning events out to handlers: the part of layout `eventlog` that the other layouts do not have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Start, Store};
use crate::layout::RegisteredHandler;
use crate::{BoxFuture, Result, Timestamp};

/// An outbox whose events are fanned out: one notification per event and handler. See adr/0066-eventlog.md.
pub trait Notifications: Send + Sync {
    /// Stores the handler's name, aliases and types, so that every relay fans events out to it from now on. Types that
    /// were stored before stay. Returns whether the handler is new. Waits for a fan-out in progress: every
    /// event that is fanned out after this has a notification for the handler.
    ///
    /// # Errors
    /// [`Code::StartRefused`](crate::Code::StartRefused) for a start at a position: this layout has none.
    fn register(&self, handler: &RegisteredHandler, start: Start) -> BoxFuture<'_, Result<bool>>;

    /// A store that handles the notifications of one handler.
    ///
    /// # Errors
    /// [`Code::LayoutDiffers`](crate::Code::LayoutDiffers) if the database does not have the layout.
    fn store_of(&self, handler: RegisteredHandler) -> Result<Arc<dyn Store>>;

    /// Fans the oldest events out that are not fanned out yet, in one transaction: inserts their notifications and sets
    /// `delivered`. `skipped` are events that failed before. If the database refuses the notification of one event, the
    /// others are fanned out without it.
    fn fan_out<'a>(&'a self, events_max: usize, skipped: &'a Skipped) -> BoxFuture<'a, Result<FannedOut>>;

    /// Searches for events that another program fanned out without a notification for a handler registered here, and
    /// returns one page of them. A new search (`after` is `None`) begins only if the last one began at least `every` ago
    /// by the database's clock; `after` continues a search behind its last page. It may read the whole table, and takes no
    /// lock.
    fn search_missed<'a>(
        &'a self,
        every: Duration,
        after: Option<&'a MissedNotification>,
    ) -> BoxFuture<'a, Result<MissedSearch>>;

    /// Inserts the notifications of these events and handlers, in one transaction that waits for a fan-out in progress. If
    /// the database refuses one of them, the others are inserted without it. One that exists stays as it is.
    fn insert_missed<'a>(&'a self, missed: &'a [MissedNotification]) -> BoxFuture<'a, Result<FannedOut>>;

    /// Records that all missed events were found by a search that began at this time.
    fn record_search(&self, begun: Timestamp) -> BoxFuture<'_, Result<()>>;
}

/// Events that a fan-out leaves out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Skipped {
    /// The events with these ids.
    pub ids: Vec<String>,
    /// Events of a type that are older than this date.
    pub older_than: BTreeMap<String, Timestamp>,
    /// Events of types that no registered pattern matches under the collation of the column. A pattern may match another
    /// spelling of such a type, if the collation regards them as equal although they differ by more than case and accents:
    /// only a fan-out without this finds it. Without meaning on PostgreSQL.
    pub unmatched_types: bool,
}

/// An event whose notification the database refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedEvent {
    /// Its id.
    pub event: String,
    /// Its type.
    pub event_type: String,
    /// Its date.
    pub event_date: Timestamp,
    /// The error of the database.
    pub reason: String,
}

/// An event and a handler that it has no notification for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissedNotification {
    /// The id of the event.
    pub event: String,
    /// Its type.
    pub event_type: String,
    /// Its date.
    pub event_date: Timestamp,
    /// The handler.
    pub handler: String,
}

/// The result of [`Notifications::search_missed`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissedSearch {
    /// A search is due in this time.
    NotDue(Duration),
    /// What was found.
    Page(MissedPage),
}

/// One page of a search for missed events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissedPage {
    /// When the page was read, by the database's clock.
    pub begun: Timestamp,
    /// In the order of types, handlers and events.
    pub missed: Vec<MissedNotification>,
    /// There may be more.
    pub more: bool,
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
    /// Events whose notification the database refused.
    pub refused: Vec<RefusedEvent>,
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
    /// A relay holds the lease of the handler with this name.
    pub is_served: bool,
    /// The handler whose earlier name it is.
    pub alias_of: Option<String>,
}
