//! SeaORM: its connection as a database.

use ::sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, RuntimeErr, TransactionTrait,
};
use uuid::Uuid;

use super::database::write_in;
use super::{CommitError, Database};
use crate::inbox::{Inbox, Received};
use crate::write::{ActionRecord, driver_error};
use crate::{Error, Event, Outbox, Result, Written, postgres_error, sqlite_error};

/// On the databases that your SeaORM supports, with the default layout.
impl Database for DatabaseConnection {
    type Transaction = DatabaseTransaction;
    type Error = DbErr;

    /// The task of the executor is not cancelled: SeaORM is built on sqlx, whose `begin` must not be dropped.
    async fn begin(&self) -> Result<Self::Transaction> {
        TransactionTrait::begin(self).await.map_err(Self::failed)
    }

    async fn commit(tx: Self::Transaction) -> Result<(), CommitError> {
        let backend = tx.get_database_backend();
        let Err(error) = tx.commit().await else { return Ok(()) };
        Err(CommitError::new(is_rolled_back(backend, &error), Self::failed(error)))
    }

    async fn rollback(tx: Self::Transaction) {
        _ = tx.rollback().await;
    }

    write_in! { tx => &*tx }

    async fn receive(tx: &mut Self::Transaction, inbox: &Inbox, group: &str, id: Uuid) -> Result<Received> {
        inbox.receive(&*tx, group, id).await
    }

    /// An error does not name its database. A result code of SQLite is a number; the others have an SQLSTATE, in which a
    /// deadlock is the same.
    fn failed(error: DbErr) -> Error {
        let is_sqlite = code_of(&error).is_some_and(|code| code.parse::<i32>().is_ok() && code.len() < 5);
        let backend = if is_sqlite { DbBackend::Sqlite } else { DbBackend::Postgres };
        driver_error::sea_orm(backend, error)
    }
}

fn is_rolled_back(backend: DbBackend, error: &DbErr) -> bool {
    let Some(code) = code_of(error) else { return false };
    match backend {
        DbBackend::Sqlite => code.parse().is_ok_and(sqlite_error::is_rolled_back),
        DbBackend::Postgres => postgres_error::is_rolled_back(&code),
        // The SQLSTATE of a deadlock. SeaORM has no number here.
        _ => code == "40001",
    }
}

fn code_of(error: &DbErr) -> Option<String> {
    let (DbErr::Conn(RuntimeErr::SqlxError(cause))
    | DbErr::Exec(RuntimeErr::SqlxError(cause))
    | DbErr::Query(RuntimeErr::SqlxError(cause))) = error
    else {
        return None;
    };
    cause.as_database_error().and_then(|answer| answer.code()).map(|code| code.into_owned())
}
