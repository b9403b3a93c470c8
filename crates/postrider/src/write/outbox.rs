//! The handle an application writes with.

use std::fmt;
use std::sync::Arc;

use super::{Batch, Transaction, Written, host, rows};
use crate::event::{IntoEvent, TraceSource, validate, validate_one};
use crate::layout::RowTable;
use crate::{Code, Error, Event, Ident, Limits, Result};

/// Writes events in the caller's transactions. Holds no connection; cheap to clone, one per program is enough.
#[derive(Clone)]
pub struct Outbox {
    limits: Limits,
    namespace: Option<String>,
    producer: Option<String>,
    trace: Option<Arc<dyn TraceSource>>,
    schema: Ident,
    rows: Option<RowTable>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbox {
    /// With the default limits and this machine's name as the producer.
    pub fn new() -> Self {
        Self { producer: host::name().map(str::to_owned), ..Self::anonymous() }
    }

    /// With the default limits and nothing filled in: events are written as they are.
    pub fn anonymous() -> Self {
        Self {
            limits: Limits::default(),
            namespace: None,
            producer: None,
            trace: None,
            schema: Ident::default(),
            rows: None,
        }
    }

    /// What to accept.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The PostgreSQL schema, or the MySQL or MariaDB database, with the outbox; `postrider` if not given. SQLite has
    /// none.
    #[must_use]
    pub fn schema(mut self, schema: Ident) -> Self {
        self.schema = schema;
        self
    }

    /// A table of another layout to write to, on a database that supports it. An event that its columns cannot hold is refused before
    /// any SQL: see [`LayoutUnfit`](crate::Code::LayoutUnfit). The row's creation is the moment of the INSERT, whatever
    /// the event's time; in `outbox_events` the event's id is made of the row's.
    #[must_use]
    pub fn rows(mut self, table: RowTable) -> Self {
        self.rows = Some(table);
        self
    }

    /// The table of another layout, if that is the outbox.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(crate) fn table(&self) -> Option<&RowTable> {
        self.rows.as_ref()
    }

    /// Events that one call takes.
    #[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
    pub(crate) fn events_per_call_max(&self) -> usize {
        self.limits.events_per_call_max
    }

    /// The service, for events that do not name one.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The machine or process, for events that do not name one. By default the machine's name.
    #[must_use]
    pub fn producer(mut self, producer: impl Into<String>) -> Self {
        self.producer = Some(producer.into());
        self
    }

    /// Where to learn the trace of the caller, for events that do not carry one.
    #[must_use]
    pub fn trace(mut self, source: impl TraceSource) -> Self {
        self.trace = Some(Arc::new(source));
        self
    }

    /// Writes one event in the caller's transaction. It becomes visible if and when that commits.
    ///
    /// Lock or write the row the event is about first: then events of one key are delivered in the order
    /// of their commits. Without a transaction the event stands for itself.
    ///
    /// # Errors
    /// A refused event (codes PR-01xx) or a failed INSERT leaves the transaction as it was; go on with it
    /// or roll it back. Except on PostgreSQL, where any failed statement, this INSERT too, ends the transaction, and
    /// on MySQL and MariaDB after a deadlock, where the server has rolled back all of it.
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if the tables are not there.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it open whether the event was written; roll back or write on.
    pub fn write<X: Transaction>(&self, tx: X, event: impl IntoEvent) -> X::Out<Written> {
        let batch = event.into_event().and_then(|event| self.prepare(vec![event]));
        tx.insert(batch, only)
    }

    /// Writes several events in their order, all or none; otherwise as [`Outbox::write`]. Their positions
    /// grow in their order. No events are written without asking the database.
    ///
    /// # Errors
    /// As [`Outbox::write`]. If one event is refused, none is written.
    ///
    /// # Cancel safety
    /// Dropping the future leaves all of them written, or none.
    pub fn write_all<X, I>(&self, tx: X, events: I) -> X::Out<Vec<Written>>
    where
        X: Transaction,
        I: IntoIterator<Item: IntoEvent>,
    {
        let events = events.into_iter().map(IntoEvent::into_event).collect::<Result<Vec<_>>>();
        tx.insert(events.and_then(|events| self.prepare(events)), Ok)
    }

    /// Says whether [`Outbox::write`] would refuse the event, without a database. Messages call it `place`, as in
    /// `line 3`.
    ///
    /// # Errors
    /// The first rule that it breaks (codes PR-01xx).
    pub fn check(&self, event: &Event, place: impl fmt::Display) -> Result<()> {
        validate_one(event, &self.limits, &place)?;
        match &self.rows {
            Some(table) => rows::check_one(table, event, &place),
            None => Ok(()),
        }
    }

    /// Fills in what the events leave open, and checks them.
    fn prepare(&self, mut events: Vec<Event>) -> Result<Batch> {
        let trace = self.trace.as_ref().and_then(|source| source.current());
        for event in &mut events {
            if event.namespace.is_none() {
                event.namespace.clone_from(&self.namespace);
            }
            if event.producer.is_none() && self.rows.as_ref().is_none_or(rows::has_producer) {
                event.producer.clone_from(&self.producer);
            }
        }
        if let Some(trace) = trace {
            events = events.into_iter().map(|event| event.with_trace(&trace)).collect();
        }
        validate(&events, &self.limits)?;
        if let Some(table) = &self.rows {
            rows::check(table, &events)?;
        }
        Ok(Batch::checked(events, self.schema.clone(), self.rows.clone()))
    }
}

/// What was written of one event.
fn only(written: Vec<Written>) -> Result<Written> {
    let untold = || Error::new(Code::OutcomeUnknown, "the database did not return the position of the event");
    written.into_iter().next().ok_or_else(untold)
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limits, namespace, producer, trace, schema, rows } = self;
        f.debug_struct("Outbox")
            .field("limits", limits)
            .field("namespace", namespace)
            .field("producer", producer)
            .field("trace", &trace.is_some())
            .field("schema", schema)
            .field("rows", rows)
            .finish()
    }
}
