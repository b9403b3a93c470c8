//! Adopting a table: the undelivered events of one outbox move into another of the same database, between a table with
//! a state per row and the layout `postrider`, and back.
//!
//! Events move in batches, each in one transaction: it writes them there and settles them here. So at every moment an
//! event is undelivered in exactly one of the two, and an adoption that was stopped anywhere begins again without a record of its
//! own. What is settled here was handed over; it is not deleted. See adr/0032-adopting-in-one-transaction.md.

mod carry;
mod copying;
mod counts;
mod fit;
mod refuse;

pub use carry::Field;
pub use copying::{Adopted, Copying};
pub use counts::Counts;
pub(crate) use refuse::taken;

use std::collections::HashSet;
use std::time::Duration;

use uuid::Uuid;

use crate::layout::RowTable;
use crate::store::{Settlement, Start, Store};
use crate::{BoxFuture, Event, Outbox, Result};

/// What is to be adopted, and how.
#[derive(Debug, Clone)]
pub struct Adoption {
    /// The subscription whose undelivered events move.
    pub subscription: String,
    /// Which of them. It must be said where there are any: all from the beginning, those that happened at a time or
    /// later, or none (`Now`). The others stay as they are.
    pub start: Option<Start>,
    /// What events lose where the other outbox has no place for it. Nothing is lost that is not named here.
    pub leave_out: Vec<Field>,
    /// Events of one transaction.
    pub batch_events_max: usize,
    /// How long the lease is taken for; it is renewed with every batch.
    pub lease: Duration,
    /// Who holds it.
    pub holder: String,
}

impl Adoption {
    /// Of a subscription, with batches of 500 and a lease of 15 seconds.
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

    /// Which events move.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }
}

/// An outbox that can hand events over to another of the same database.
///
/// THIS SEAM IS INTERNAL AND UNSTABLE, as [`Store`] is.
pub trait HandsOver: Store {
    /// The table with a state per row, if it is one.
    fn table(&self) -> Option<RowTable>;

    /// What is there, by state, of a subscription. Reads all of the outbox, in one snapshot, and changes nothing.
    fn counts(&self, subscription: &str) -> BoxFuture<'_, Result<Counts>>;

    /// Writes events to another outbox and settles them here, in one transaction: all of it or nothing.
    ///
    /// # Errors
    /// [`Code::ForeignPublisher`](crate::Code::ForeignPublisher) if another process has changed one of the rows meanwhile,
    /// or what the database says.
    fn hand_over(&self, parcel: Parcel) -> BoxFuture<'_, Result<HandedOver>>;
}

/// Events on their way, and what becomes of them where they come from.
#[derive(Debug)]
pub struct Parcel {
    /// What is settled with them, fenced by its epoch.
    pub settlement: Settlement,
    /// Where they go.
    pub to: Outbox,
    /// The events, in the order to write them.
    pub events: Vec<Event>,
    /// How often each was tried and failed.
    pub attempts: Vec<u32>,
}

/// Answer to [`HandsOver::hand_over`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandedOver {
    /// They are there, and settled here.
    Done,
    /// The epoch is not ours any more; nothing happened.
    Fenced,
}

impl Parcel {
    /// The events as one call of the writer takes each: not too many, and no two with the same id.
    pub(crate) fn calls(&mut self) -> Vec<Vec<Event>> {
        let most = self.to.events_per_call_max();
        let mut calls: Vec<Vec<Event>> = Vec::new();
        let mut ids = HashSet::new();
        for event in std::mem::take(&mut self.events) {
            if ids.len() >= most || !ids.insert(event.id) || calls.is_empty() {
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
