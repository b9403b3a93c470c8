//! Writing events over a separate connection, without a transaction of the caller.

use crate::{BoxFuture, Event, Result, Written};

/// Writes events, each call in one transaction.
pub trait EventWriter: Send {
    /// Writes all events and commits, or writes nothing.
    ///
    /// # Errors
    /// A refused event, or the database's error. Unless the code is
    /// [`OutcomeUnknown`](crate::Code::OutcomeUnknown), nothing was written.
    fn write(&mut self, events: Vec<Event>) -> BoxFuture<'_, Result<Vec<Written>>>;
}

/// The error of a server, with what it means for these events: the general effects and hints of the codes are about a
/// relay, which retries by itself.
#[cfg(feature = "_server")]
pub(super) fn not_written(error: crate::Error) -> crate::Error {
    use crate::Code;

    match error.code() {
        Code::OutcomeUnknown => error
            .with_effect("either all of the events were written or none")
            .with_hint("check the outbox before you write these events again"),
        Code::StoreBusy => error.with_effect("nothing was written").with_hint("write the events again"),
        Code::StoreFailed => {
            error.with_effect("nothing was written").with_hint("see the database's message above")
        }
        // The effect of this code is about rows that a relay settles.
        Code::RowRefused => not_written(crate::Error::new(Code::StoreFailed, error.one_line())),
        _ => error,
    }
}
