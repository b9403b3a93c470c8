//! The caller's transaction, of any driver.

use super::Written;
use crate::layout::RowTable;
use crate::{Event, Ident, Result};

/// A borrowed transaction of the caller. Implemented for the connection and transaction types of the drivers.
///
/// THIS SEAM IS UNSTABLE: call [`Outbox::write`](super::Outbox::write) instead of implementing it.
pub trait Transaction: Sized {
    /// The return type: the result itself, or a future of it.
    type Out<T: Send + 'static>;

    /// Inserts the events in their order, all or none, and returns `answer` applied to what was written.
    ///
    /// # Contract
    /// - An error in `batch` is returned without touching the database.
    /// - After any error the transaction is as it was before the call and can continue, unless the database aborted it
    ///   (disk full, I/O error; on PostgreSQL after any failed statement).
    fn insert<T: Send + 'static>(
        self,
        batch: Result<Batch>,
        answer: fn(Vec<Written>) -> Result<T>,
    ) -> Self::Out<T>;
}

/// Events that have passed all checks of the writer.
#[derive(Debug)]
pub struct Batch {
    events: Vec<Event>,
    schema: Ident,
    rows: Option<RowTable>,
}

impl Batch {
    /// A batch of events that have passed all checks.
    pub(super) fn checked(events: Vec<Event>, schema: Ident, rows: Option<RowTable>) -> Self {
        Self { events, schema, rows }
    }

    /// The events, in insertion order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The table to insert into, if the outbox has another layout than the default one. The events fit its columns.
    pub fn rows(&self) -> Option<&RowTable> {
        self.rows.as_ref()
    }

    /// The schema of the outbox, where the database has schemas.
    pub fn schema(&self) -> &Ident {
        &self.schema
    }
}
