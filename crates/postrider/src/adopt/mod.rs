//! Adoption: moves the undelivered events of one outbox to another in the same database, from a table with a state per
//! row to the layout `postrider`, or back.
//!
//! Events move in batches. One transaction writes a batch to the target and settles it in the source, so an event is
//! always undelivered in exactly one of the two. An interrupted adoption can therefore be started again, without a
//! record of its progress. Rows that were moved stay in the source as delivered; they are not deleted. See
//! adr/0032-adopting-in-one-transaction.md.

mod convert;
mod counts;
mod fit;
mod refuse;
mod run;
mod write;

pub use convert::OptionalField;
pub use counts::Counts;
pub(crate) use refuse::rows_changed;
pub use run::{Adopted, AdoptionRun};
pub(crate) use write::{BatchTx, write_batch};

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::layout::RowTable;
use crate::store::{Settlement, Start, Store};
use crate::{BoxFuture, Event, Outbox, Result};

/// Which events are moved, and how.
#[derive(Debug, Clone)]
pub struct Adoption {
    /// The subscription whose undelivered events are moved.
    pub subscription: String,
    /// Which of them: all (`Beginning`), those that happened at or after a time, or none (`Now`). Required if there are
    /// any. Other events are not changed.
    pub start: Option<Start>,
    /// Fields to remove if the target has no column for them. An event with any other such field is refused.
    pub leave_out: Vec<OptionalField>,
    /// The most events of one transaction.
    pub batch_events_max: usize,
    /// The duration of the lease; it is renewed with every batch.
    pub lease: Duration,
    /// The holder of the lease.
    pub holder: String,
}

impl Adoption {
    /// An adoption of a subscription, with batches of 500 events and a lease of 15 seconds.
    pub fn of(subscription: impl Into<String>) -> Self {
        Self {
            subscription: subscription.into(),
            start: None,
            leave_out: Vec::new(),
            batch_events_max: 500,
            lease: Duration::from_secs(15),
            holder: format!("adopt-{}", Uuid::now_v7()),
        }
    }

    /// Sets which events are moved.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }
}

/// An outbox whose events can be moved to another one in the same database.
///
/// THIS SEAM IS INTERNAL AND UNSTABLE, as [`Store`] is.
pub trait AdoptSource: Store {
    /// The table with a state per row; `None` for the layout `postrider`.
    #[doc(hidden)]
    fn table(&self) -> Option<RowTable> {
        None
    }

    /// The source of one subscription's events, if subscriptions have separate rows: with notifications, each handler is
    /// a source. Close it after use.
    ///
    /// # Errors
    /// [`Code::SubscriptionUnknown`](crate::Code::SubscriptionUnknown) if no such handler is registered.
    #[doc(hidden)]
    fn of_subscription(&self, _subscription: &str) -> BoxFuture<'_, Result<Option<Arc<dyn AdoptSource>>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Fans out the events that wait for it, as a relay would: only events with a notification can be moved. Returns how
    /// many notifications were added.
    #[doc(hidden)]
    fn fan_out_waiting(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    /// The events of a subscription, counted by state. Reads the whole outbox in one snapshot; changes nothing.
    #[doc(hidden)]
    fn counts(&self, subscription: &str) -> BoxFuture<'_, Result<Counts>>;

    /// Writes events to the target and settles them here, in one transaction: all of it or nothing.
    ///
    /// # Errors
    /// [`Code::ForeignPublisher`](crate::Code::ForeignPublisher) if another process has changed one of the rows
    /// meanwhile, and errors of the database.
    #[doc(hidden)]
    fn move_batch(&self, batch: AdoptionBatch) -> BoxFuture<'_, Result<Moved>>;
}

/// Events that are moved in one transaction, and their settlement in the source.
#[doc(hidden)]
#[derive(Debug)]
pub struct AdoptionBatch {
    /// Their settlement, fenced by its epoch.
    pub settlement: Settlement,
    /// The target.
    pub to: Outbox,
    /// The events, in the order in which they are written.
    pub events: Vec<Event>,
    /// The failed attempts of each event.
    pub attempts: Vec<u32>,
}

/// The result of [`AdoptSource::move_batch`].
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The events are in the target, and settled in the source.
    Done,
    /// Another relay has taken the lease; nothing was changed.
    Fenced,
}

impl AdoptionBatch {
    /// Splits the events into calls of the writer: at most `events_per_call_max` each, and no two with the same id.
    fn calls(&mut self) -> Vec<Vec<Event>> {
        let events_max = self.to.events_per_call_max();
        let mut calls: Vec<Vec<Event>> = Vec::new();
        let mut ids = HashSet::new();
        for event in std::mem::take(&mut self.events) {
            if ids.len() >= events_max || !ids.insert(event.id) || calls.is_empty() {
                ids = HashSet::from([event.id]);
                calls.push(Vec::new());
            }
            if let Some(call) = calls.last_mut() {
                call.push(event);
            }
        }
        calls
    }
}
