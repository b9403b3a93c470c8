//! What the outbox knows about one event: the input of an explanation.

use std::sync::Arc;

use serde::Serialize;

use super::{SqlFlavor, without_values};
use crate::operate::{ParkedCount, ParkedItem};
use crate::store::{LeaseOverview, RelayOverview};
use crate::{Event, Timestamp};

/// Which event to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventSelector {
    /// By its id, or by its position or row id.
    Event(String),
    /// The first event with this ordering key that a subscription has not finished.
    Key(String),
}

/// One event, without its payload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EventIdentity {
    /// Its position, or the id of its row.
    pub row: String,
    /// Its id.
    pub id: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: Option<String>,
    /// Its ordering key, before routing.
    pub key: Option<String>,
    /// When it was created.
    pub time: Option<Timestamp>,
}

impl EventIdentity {
    /// An event at a position or in a row.
    pub fn new(row: impl Into<String>, event: Option<&Event>) -> Self {
        Self {
            row: row.into(),
            id: event.map(|event| event.id.to_string()),
            event_type: event.map(|event| event.event_type.clone()),
            key: event.and_then(|event| event.ordering_key()).map(|key| key.into_owned()),
            time: event.map(|event| event.time),
        }
    }
}

/// A transaction that has written to the outbox and is still open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OpenWriter {
    /// The server's number of the connection, or the name of a prepared transaction.
    pub backend: String,
    /// User, program and address, as far as the server shows them.
    pub client: String,
    /// When the transaction began.
    pub since: Option<Timestamp>,
    /// Its last statement, [without the values](without_values) in it.
    pub query: Option<String>,
}

impl OpenWriter {
    /// The statement is shown [without its values](without_values): it may contain payloads.
    pub fn new(
        backend: impl Into<String>,
        client: &str,
        since: Option<Timestamp>,
        query: Option<&str>,
        flavor: SqlFlavor,
    ) -> Self {
        let client = client.replace(char::is_control, " ");
        Self {
            backend: backend.into(),
            client,
            since,
            query: query.map(|query| without_values(query, flavor)),
        }
    }
}

/// Why there is no such event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "absent", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Absent {
    /// These transactions have written events and are still open; one of them may contain it.
    TransactionOpen {
        /// The transactions.
        transactions: Vec<OpenWriter>,
    },
    /// Its time, or its position, is before the oldest event that still exists.
    RemovedByRetention {
        /// The time of the oldest event.
        oldest: Timestamp,
    },
    /// The position was assigned, and no event has it: its transaction was rolled back, or its row was deleted.
    Empty,
    /// No event has this position yet; this is the last one.
    NotReached {
        /// The last position.
        last: String,
    },
    /// No event has this id, as far as was searched.
    Unknown {
        /// How many positions around the time in the id were searched; `None`: all.
        searched: Option<u64>,
    },
    /// No subscription has an unfinished event with this key.
    NothingWaits,
    /// No row with this key is parked. Rows that are not read yet are not searched by key in this layout.
    NothingParked,
}

/// Where an event is in a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The subscription is past it.
    Done {
        /// It was at this time.
        before: Option<Timestamp>,
    },
    /// It has a parked row.
    Parked(Box<ParkedItem>),
    /// It is neither done nor parked.
    Backlog {
        /// Unfinished events before it, if they can be counted.
        ahead: Option<ParkedCount>,
    },
    /// The row is marked as being published.
    Marked,
    /// The table schedules its next attempt for later.
    Scheduled {
        /// When, if the table has a column for it.
        at: Option<Timestamp>,
        /// Failed attempts so far.
        attempts: u32,
    },
    /// Another program gave the row up.
    GivenUp {
        /// Failed attempts so far.
        attempts: u32,
    },
    /// Layout `eventlog`: its notification is expired.
    Expired {
        /// When.
        at: Option<Timestamp>,
    },
    /// Layout `eventlog`: it was not fanned out yet.
    NotFannedOut,
    /// Layout `eventlog`: this handler does not want events of its type, or registered after it.
    NotWanted,
}

/// What a subscription knows about the event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionFacts {
    /// Its name.
    pub name: String,
    /// The event, if it differs between subscriptions: when a key was sought.
    pub event: Option<EventIdentity>,
    /// Why the event cannot be read, if it cannot.
    pub damaged: Option<String>,
    /// Where the event is.
    pub place: Place,
    /// The parked event of its key that it waits for.
    pub head: Option<ParkedItem>,
    /// The reason of the operator's pause.
    pub paused: Option<String>,
    /// Why it is halted.
    pub halted: Option<String>,
    /// Its lease, expired or not.
    pub lease: Option<LeaseOverview>,
    /// What its relays reported.
    pub relays: Vec<RelayOverview>,
}

impl SubscriptionFacts {
    /// A subscription in which the event is here, and nothing else is known.
    pub fn new(name: impl Into<String>, place: Place) -> Self {
        Self {
            name: name.into(),
            event: None,
            damaged: None,
            place,
            head: None,
            paused: None,
            halted: None,
            lease: None,
            relays: Vec::new(),
        }
    }
}

/// What the outbox knows about one event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventFacts {
    /// The time on the database's clock.
    pub now: Timestamp,
    /// The event.
    pub event: Option<EventIdentity>,
    /// Why there is none, if there is none.
    pub absent: Option<Absent>,
    /// Why it cannot be read, if it cannot.
    pub damaged: Option<String>,
    /// The event with all its fields, if one event was sought and can be read.
    pub content: Option<Arc<Event>>,
    /// Every subscription that the event concerns.
    pub subscriptions: Vec<SubscriptionFacts>,
}

impl EventFacts {
    /// Nothing is known yet.
    pub fn new(now: Timestamp) -> Self {
        Self { now, event: None, absent: None, damaged: None, content: None, subscriptions: Vec::new() }
    }
}
