//! The handle an application writes with.

use std::fmt;
use std::sync::Arc;

use super::action_record::recorded;
use super::{ActionRecord, ActionStep, Batch, Step, Transaction, Written, host, rows};
use crate::event::{IntoEvent, TraceSource, validate, validate_one};
#[cfg(feature = "actions")]
use crate::layout::EventField;
use crate::layout::RowTable;
use crate::{Code, Error, Event, Ident, Limits, Result, Timestamp};

/// Writes events in the caller's transactions. Holds no connection and is cheap to clone; one per program is enough.
///
/// It keeps no state about events: if the process dies, only the caller's transaction decides whether an event exists.
///
/// ```
/// # #[cfg(feature = "sqlx-postgres")]
/// # async fn shop(pool: sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// use postrider::{Event, Outbox};
///
/// let outbox = Outbox::new().namespace("shop");
///
/// let mut tx = pool.begin().await?;
/// sqlx::query("INSERT INTO orders (id, cents) VALUES (42, 1200)").execute(&mut *tx).await?;
/// let event = Event::new("order.placed", r#"{"cents": 1200}"#).with_aggregate("Order", "42");
/// outbox.write(&mut tx, event).await?;
/// tx.commit().await?; // both, or neither
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Outbox {
    limits: Limits,
    namespace: Option<String>,
    producer: Option<String>,
    trace: Option<Arc<dyn TraceSource>>,
    schema: Ident,
    table: Option<RowTable>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Outbox {
    /// A writer with the default limits and this machine's name as the producer.
    pub fn new() -> Self {
        Self { producer: host::name().map(str::to_owned), ..Self::anonymous() }
    }

    /// A writer with the default limits that fills nothing in: events are written as they are.
    pub fn anonymous() -> Self {
        Self {
            limits: Limits::default(),
            namespace: None,
            producer: None,
            trace: None,
            schema: Ident::default(),
            table: None,
        }
    }

    /// The limits that events must keep; an event beyond them is refused before any SQL.
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

    /// A table of another layout to write to, on a database that supports it. An event that its columns cannot hold
    /// is refused before any SQL: see [`LayoutUnfit`](crate::Code::LayoutUnfit). The row's creation time is the time
    /// of the INSERT, not the event's time; in `outbox_events` the event's id is derived from the row.
    #[must_use]
    pub fn table(mut self, table: RowTable) -> Self {
        self.table = Some(table);
        self
    }

    /// The table, if the outbox has another layout than the default one.
    #[cfg(feature = "_store")]
    pub(crate) fn row_table(&self) -> Option<&RowTable> {
        self.table.as_ref()
    }

    /// How many events one call accepts.
    #[cfg(feature = "_store")]
    pub(crate) fn events_per_call_max(&self) -> usize {
        self.limits.events_per_call_max
    }

    /// The name of the service, for events that do not set a namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// The machine or process, for events that do not set a producer. The default is the machine's name.
    #[must_use]
    pub fn producer(mut self, producer: impl Into<String>) -> Self {
        self.producer = Some(producer.into());
        self
    }

    /// Provides the caller's trace, for events that do not carry one.
    #[must_use]
    pub fn trace(mut self, source: impl TraceSource) -> Self {
        self.trace = Some(Arc::new(source));
        self
    }

    /// Writes one event in the caller's transaction. The relay sees it if and when that transaction commits. If the
    /// process dies before the commit, the event does not exist, like the rest of the transaction.
    ///
    /// Lock or write the row that the event is about first: then events of one key are delivered in the order of their
    /// commits. Outside a transaction, the event is committed by its own INSERT.
    ///
    /// # Errors
    /// A refused event (codes PR-01xx) or a failed INSERT leaves the transaction as it was: continue it or roll it
    /// back. There are two exceptions. On PostgreSQL, any failed statement aborts the transaction, including this
    /// INSERT. On MySQL and MariaDB, the server rolls the whole transaction back after a deadlock.
    /// [`Code::SchemaMissing`](crate::Code::SchemaMissing) if the tables do not exist.
    ///
    /// # Cancel safety
    /// After the future is dropped, the event may be in the transaction or not. Roll back to be sure that it is not.
    pub fn write<X: Transaction>(&self, tx: X, event: impl IntoEvent) -> X::Out<Written> {
        let batch = event.into_event().and_then(|event| self.prepare(vec![event]));
        tx.insert(batch, only)
    }

    /// Writes several events in the given order, all or none; otherwise as [`Outbox::write`]. Positions increase in
    /// that order. An empty list returns without a call to the database.
    ///
    /// # Errors
    /// As [`Outbox::write`]. If one event is refused, none is written.
    ///
    /// # Cancel safety
    /// After the future is dropped, all events may be in the transaction, or none. On MySQL and MariaDB, a call that
    /// needs several INSERT statements (more than 1,000 events or 8 MiB) may leave only the first of them: roll back.
    pub fn write_all<X, I>(&self, tx: X, events: I) -> X::Out<Vec<Written>>
    where
        X: Transaction,
        I: IntoIterator<Item: IntoEvent>,
    {
        let events = events.into_iter().map(IntoEvent::into_event).collect::<Result<Vec<_>>>();
        tx.insert(events.and_then(|events| self.prepare(events)), Ok)
    }

    /// Records in the caller's transaction that an action was performed. In layout `eventlog` this is a row without an
    /// event, the sentinel; in all others a row in the table `actions` of the migrations. The
    /// executor of actions calls it where no event row carries the action.
    ///
    /// # Errors
    /// As [`Outbox::write`]; [`Code::ParamsInvalid`] if the parameters are not JSON, [`Code::DuplicateId`] if `actions` has
    /// a row with this id, on MySQL and MariaDB.
    ///
    /// # Cancel safety
    /// After the future is dropped, the record may be in the transaction or not.
    pub fn record_action<X: Transaction>(&self, tx: X, record: ActionRecord) -> X::Out<()> {
        let step = ActionStep::record(&self.schema, self.table.as_ref(), &self.limits, record);
        tx.step(step.map(Step::Action), recorded)
    }

    /// Deletes up to `rows_max` rows of the table `actions` whose action completed before this time, and returns their
    /// number. Nothing else deletes them. Call it again while it returns `rows_max`. Sentinels of layout `eventlog` are
    /// deleted by its retention instead.
    ///
    /// # Errors
    /// What the database says. Nothing was deleted.
    ///
    /// # Cancel safety
    /// After the future is dropped, the rows may be deleted in the transaction or not.
    pub fn delete_actions<X: Transaction>(&self, tx: X, before: Timestamp, rows_max: usize) -> X::Out<u64> {
        let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
        tx.step(Ok(Step::Action(ActionStep::Delete { schema: self.schema.clone(), before, rows_max })), Ok)
    }

    /// Whether the event rows of this outbox have a column for this.
    #[cfg(feature = "actions")]
    pub(crate) fn has_column(&self, field: EventField) -> bool {
        self.table.as_ref().is_none_or(|table| table.layout().spec().has_column(field))
    }

    /// Checks whether [`Outbox::write`] would refuse the event, without a database. Error messages name the event by
    /// `label`, for example `line 3`.
    ///
    /// # Errors
    /// The first rule that the event breaks (codes PR-01xx).
    pub fn check(&self, event: &Event, label: impl fmt::Display) -> Result<()> {
        validate_one(event, &self.limits, &label)?;
        match &self.table {
            Some(table) => rows::check_one(table, event, &label),
            None => Ok(()),
        }
    }

    /// Fills in the fields that the events leave unset, and checks them.
    fn prepare(&self, mut events: Vec<Event>) -> Result<Batch> {
        let trace = self.trace.as_ref().and_then(|source| source.current());
        for event in &mut events {
            if event.namespace.is_none() {
                event.namespace.clone_from(&self.namespace);
            }
            if event.producer.is_none() && self.table.as_ref().is_none_or(rows::has_producer) {
                event.producer.clone_from(&self.producer);
            }
        }
        if let Some(trace) = trace {
            events = events.into_iter().map(|event| event.with_trace(&trace)).collect();
        }
        validate(&events, &self.limits)?;
        if let Some(table) = &self.table {
            rows::check(table, &events)?;
        }
        Ok(Batch::checked(events, self.schema.clone(), self.table.clone()))
    }
}

/// The answer for a batch of one event.
fn only(written: Vec<Written>) -> Result<Written> {
    let positions_missing =
        || Error::new(Code::OutcomeUnknown, "the database did not return the position of the event");
    written.into_iter().next().ok_or_else(positions_missing)
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limits, namespace, producer, trace, schema, table } = self;
        f.debug_struct("Outbox")
            .field("limits", limits)
            .field("namespace", namespace)
            .field("producer", producer)
            .field("trace", &trace.is_some())
            .field("schema", schema)
            .field("table", table)
            .finish()
    }
}
