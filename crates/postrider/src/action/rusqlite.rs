//! rusqlite: a connection as a database.

use std::ops::Deref;
use std::sync::Arc;

use ::rusqlite::{Connection, Error as SqlError};
use tokio::sync::{Mutex, OwnedMutexGuard};
use uuid::Uuid;

use super::{CommitError, Database};
use crate::inbox::{Inbox, Received};
use crate::write::{ActionRecord, driver_error};
use crate::{Error, Event, Outbox, Result, Written, sqlite_error};

/// A connection that executions take turns with: SQLite has one writer at a time. Cheap to clone.
///
/// BEGIN and COMMIT, which wait for locks and for the disk, run on a thread for blocking calls. Set the connection's
/// `busy_timeout` if others write to the file.
#[derive(Debug, Clone)]
pub struct RusqliteConnection(Arc<Mutex<Connection>>);

impl RusqliteConnection {
    /// Takes the connection. Read with another one: an action must not read in the transaction of another.
    pub fn new(connection: Connection) -> Self {
        Self(Arc::new(Mutex::new(connection)))
    }
}

/// A transaction that owns its turn. Dereferences to the connection; if it is dropped, it is rolled back.
#[derive(Debug)]
pub struct RusqliteTransaction {
    connection: OwnedMutexGuard<Connection>,
    is_open: bool,
}

impl RusqliteTransaction {
    /// Runs a statement on a thread for blocking calls.
    async fn run(mut self, statement: &'static str) -> (Self, Result<(), SqlError>) {
        let run = move || {
            let ran = self.connection.execute_batch(statement);
            // After a failed COMMIT, the transaction may still be open.
            self.is_open = !self.connection.is_autocommit();
            (self, ran)
        };
        match tokio::task::spawn_blocking(run).await {
            Ok(ended) => ended,
            Err(ended) => std::panic::resume_unwind(Box::new(ended.to_string())),
        }
    }
}

impl Deref for RusqliteTransaction {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for RusqliteTransaction {
    fn drop(&mut self) {
        if self.is_open {
            _ = self.connection.execute_batch("ROLLBACK");
        }
    }
}

impl Database for RusqliteConnection {
    type Transaction = RusqliteTransaction;
    type Error = SqlError;

    async fn begin(&self) -> Result<RusqliteTransaction> {
        let connection = self.0.clone().lock_owned().await;
        let (tx, begun) = RusqliteTransaction { connection, is_open: false }.run("BEGIN IMMEDIATE").await;
        begun.map_err(Self::failed).map(|()| tx)
    }

    async fn commit(tx: RusqliteTransaction) -> Result<(), CommitError> {
        let (_tx, Err(error)) = tx.run("COMMIT").await else { return Ok(()) };
        let code = error.sqlite_error().map(|failure| failure.extended_code);
        Err(CommitError::new(code.is_some_and(sqlite_error::is_rolled_back), Self::failed(error)))
    }

    async fn rollback(tx: RusqliteTransaction) {
        drop(tx);
    }

    async fn write_events(
        tx: &mut RusqliteTransaction,
        outbox: &Outbox,
        events: Vec<Event>,
    ) -> Result<Vec<Written>> {
        outbox.write_all(&**tx, events)
    }

    async fn record_action(
        tx: &mut RusqliteTransaction,
        outbox: &Outbox,
        record: ActionRecord,
    ) -> Result<()> {
        outbox.record_action(&**tx, record)
    }

    async fn receive(tx: &mut RusqliteTransaction, inbox: &Inbox, group: &str, id: Uuid) -> Result<Received> {
        inbox.receive(&**tx, group, id)
    }

    fn failed(error: SqlError) -> Error {
        driver_error::rusqlite(error)
    }
}
