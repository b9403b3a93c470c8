//! The transaction that an executor owns.

use crate::write::ActionRecord;
use crate::{Error, Event, Outbox, Result, Written};

/// Why a COMMIT failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum CommitError {
    /// The database refused it: the transaction was rolled back.
    RolledBack(Error),
    /// The connection was lost, or the answer is not conclusive: the transaction is committed, or it is not.
    Unknown(Error),
}

/// A database that an [`Executor`](super::Executor) writes to: it opens and ends transactions of a driver, and lends them to
/// the writer of events. Implemented for the pools of the drivers.
///
/// The executor calls it in a task that is not cancelled, so its futures need not be safe to drop.
///
/// # Contract
/// A transaction that is dropped is rolled back, at the latest before its connection is used again.
pub trait Database: Send + Sync + 'static {
    /// A transaction with its connection.
    type Transaction: Send + 'static;
    /// The errors of the driver.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Takes a connection and begins a transaction. On SQLite it takes the write lock at once.
    ///
    /// # Errors
    /// What the driver or the pool says; there is no transaction then.
    fn begin(&self) -> impl Future<Output = Result<Self::Transaction>> + Send;

    /// Commits.
    ///
    /// # Errors
    /// [`CommitError::RolledBack`] only if the database said so.
    fn commit(tx: Self::Transaction) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// Rolls back. Errors are ignored: a connection that cannot roll back is lost, and its transaction with it.
    fn rollback(tx: Self::Transaction) -> impl Future<Output = ()> + Send;

    /// Calls [`Outbox::write_all`] with the transaction.
    ///
    /// # Errors
    /// As there.
    fn write_events(
        tx: &mut Self::Transaction,
        outbox: &Outbox,
        events: Vec<Event>,
    ) -> impl Future<Output = Result<Vec<Written>>> + Send;

    /// Calls [`Outbox::record_action`] with the transaction.
    ///
    /// # Errors
    /// As there.
    fn record_action(
        tx: &mut Self::Transaction,
        outbox: &Outbox,
        record: ActionRecord,
    ) -> impl Future<Output = Result<()>> + Send;

    /// An error of the driver with its code: [`Code::StoreBusy`](crate::Code::StoreBusy) if a new try may succeed.
    fn failed(error: Self::Error) -> Error;
}
