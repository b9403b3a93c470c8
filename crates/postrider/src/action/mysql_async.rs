//! mysql_async: its pool as a database.

use ::mysql_async::{Error as SqlError, Pool, Transaction, TxOpts};

use super::{CommitError, Database};
use crate::write::{ActionRecord, driver_error};
use crate::{Error, Event, Outbox, Result, Written, mysql_error};

impl Database for Pool {
    type Transaction = Transaction<'static>;
    type Error = SqlError;

    async fn begin(&self) -> Result<Self::Transaction> {
        self.start_transaction(TxOpts::default()).await.map_err(Self::failed)
    }

    async fn commit(tx: Self::Transaction) -> Result<(), CommitError> {
        let Err(error) = tx.commit().await else { return Ok(()) };
        let is_rolled_back = match &error {
            SqlError::Server(answer) => mysql_error::is_rolled_back(answer.code),
            _ => false,
        };
        match is_rolled_back {
            true => Err(CommitError::RolledBack(Self::failed(error))),
            false => Err(CommitError::Unknown(Self::failed(error))),
        }
    }

    async fn rollback(tx: Self::Transaction) {
        _ = tx.rollback().await;
    }

    async fn write_events(
        tx: &mut Self::Transaction,
        outbox: &Outbox,
        events: Vec<Event>,
    ) -> Result<Vec<Written>> {
        outbox.write_all(tx, events).await
    }

    async fn record_action(tx: &mut Self::Transaction, outbox: &Outbox, record: ActionRecord) -> Result<()> {
        outbox.record_action(tx, record).await
    }

    fn failed(error: SqlError) -> Error {
        driver_error::mysql_async(error)
    }
}
