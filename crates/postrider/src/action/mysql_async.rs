//! mysql_async: its pool as a database.

use ::mysql_async::{Error as SqlError, Pool, Transaction, TxOpts};
use uuid::Uuid;

use super::database::write_in;
use super::{CommitError, Database};
use crate::inbox::{Inbox, Received};
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
        Err(CommitError::new(is_rolled_back, Self::failed(error)))
    }

    async fn rollback(tx: Self::Transaction) {
        _ = tx.rollback().await;
    }

    write_in! { tx => tx }

    async fn receive(tx: &mut Self::Transaction, inbox: &Inbox, group: &str, id: Uuid) -> Result<Received> {
        inbox.receive(tx, group, id).await
    }

    fn failed(error: SqlError) -> Error {
        driver_error::mysql_async(error)
    }
}
