//! The transaction that an executor owns.

use uuid::Uuid;

use crate::inbox::{Inbox, Received};
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

impl CommitError {
    /// The error of a COMMIT. `is_rolled_back`: the database said that the transaction was rolled back.
    pub fn new(is_rolled_back: bool, error: Error) -> Self {
        if is_rolled_back { Self::RolledBack(error) } else { Self::Unknown(error) }
    }
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

    /// Calls [`Inbox::receive`] with the transaction.
    ///
    /// # Errors
    /// As there.
    fn receive(
        tx: &mut Self::Transaction,
        inbox: &Inbox,
        group: &str,
        id: Uuid,
    ) -> impl Future<Output = Result<Received>> + Send;

    /// An error of the driver with its code: [`Code::StoreBusy`](crate::Code::StoreBusy) if a new try may succeed.
    fn failed(error: Self::Error) -> Error;
}

/// Writing in a transaction is the same with every driver, except for how the transaction is borrowed.
#[allow(unused_macros, reason = "which drivers there are depends on the features")]
macro_rules! write_in {
    ($tx:ident => $borrowed:expr) => {
        async fn write_events(
            $tx: &mut Self::Transaction,
            outbox: &Outbox,
            events: Vec<Event>,
        ) -> Result<Vec<Written>> {
            outbox.write_all($borrowed, events).await
        }

        async fn record_action(
            $tx: &mut Self::Transaction,
            outbox: &Outbox,
            record: ActionRecord,
        ) -> Result<()> {
            outbox.record_action($borrowed, record).await
        }
    };
}
#[allow(unused_imports, reason = "which drivers there are depends on the features")]
pub(super) use write_in;
