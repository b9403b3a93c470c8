//! The caller's transaction, of any driver.

use super::{Step, Written};
use crate::layout::RowTable;
use crate::{BoxFuture, Event, Ident, Result};

/// A borrowed transaction of the caller. Implemented for the connection and transaction types of the drivers.
///
/// THIS SEAM IS UNSTABLE: call [`Outbox::write`](super::Outbox::write) or [`Inbox::once`](crate::Inbox::once) instead of
/// implementing it.
pub trait Transaction: Sized {
    /// The return type: the result itself, or a future of it.
    type Out<T: Send + 'static>;

    /// Inserts the events in their order, all or none, and returns `answer` applied to what was written.
    ///
    /// # Contract
    /// - An error in `batch` is returned without touching the database.
    /// - After any error the transaction is as it was before the call and can continue, unless the database aborted it
    ///   (disk full, I/O error; on PostgreSQL after any failed statement).
    #[doc(hidden)]
    fn insert<T: Send + 'static>(
        self,
        batch: Result<Batch>,
        answer: fn(Vec<Written>) -> Result<T>,
    ) -> Self::Out<T>;

    /// Runs a step, and returns `answer` applied to the number of rows that it inserted or deleted. The
    /// contract is that of [`insert`](Self::insert).
    #[doc(hidden)]
    fn step<T: Send + 'static>(self, step: Result<Step>, answer: fn(u64) -> Result<T>) -> Self::Out<T>;
}

/// A transaction of an async driver, which can be used again after a step.
///
/// THIS SEAM IS UNSTABLE: call [`Inbox::once`](crate::Inbox::once), do not implement it.
pub trait AsyncTransaction: Transaction {
    /// As [`Transaction::step`], and leaves the transaction to the caller.
    #[doc(hidden)]
    fn step_on(&mut self, step: Result<Step>) -> BoxFuture<'_, Result<u64>>;
}

/// A transaction of a blocking driver, which can be used again after a step.
///
/// THIS SEAM IS UNSTABLE: call [`Inbox::once_blocking`](crate::Inbox::once_blocking), do not implement it.
pub trait BlockingTransaction: Transaction + Copy {
    /// As [`Transaction::step`], and leaves the transaction to the caller.
    #[doc(hidden)]
    fn step_on(self, step: Result<Step>) -> Result<u64>;
}

/// A borrow that can be lent for a shorter time: what every driver's transaction is passed as.
#[cfg(feature = "_async")]
pub(super) trait Reborrow {
    /// The shorter borrow.
    type Shorter<'s>
    where
        Self: 's;

    /// Lends it.
    fn reborrow(&mut self) -> Self::Shorter<'_>;
}

#[cfg(feature = "_async")]
impl<C> Reborrow for &mut C {
    type Shorter<'s>
        = &'s mut C
    where
        Self: 's;

    fn reborrow(&mut self) -> &mut C {
        self
    }
}

#[cfg(feature = "_async")]
impl<C> Reborrow for &C {
    type Shorter<'s>
        = &'s C
    where
        Self: 's;

    fn reborrow(&mut self) -> &C {
        self
    }
}

/// Events that have passed all checks of the writer.
#[derive(Debug)]
pub struct Batch {
    events: Vec<Event>,
    schema: Ident,
    table: Option<RowTable>,
}

impl Batch {
    /// A batch of events that have passed all checks.
    pub(super) fn checked(events: Vec<Event>, schema: Ident, table: Option<RowTable>) -> Self {
        Self { events, schema, table }
    }

    /// The events, in insertion order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The table to insert into, if the outbox has another layout than the default one. The events fit its columns.
    pub fn row_table(&self) -> Option<&RowTable> {
        self.table.as_ref()
    }

    /// The schema of the outbox, where the database has schemas.
    pub fn schema(&self) -> &Ident {
        &self.schema
    }
}
