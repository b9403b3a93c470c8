//! Writing in a rusqlite transaction: the answer is there at once.

use ::rusqlite::{Connection, Error as SqlError, Savepoint, params};

use super::columns::{Columns, INSERT};
use super::{Batch, Transaction, Written};
use crate::sqlite_error::insert_failed;
use crate::{Error, Position, Result};

impl Transaction for &Connection {
    type Out<T: Send + 'static> = Result<T>;

    fn insert<T: Send + 'static>(
        self,
        batch: Result<Batch>,
        answer: fn(Vec<Written>) -> Result<T>,
    ) -> Result<T> {
        let batch = batch?;
        let rows = Columns::of(&batch)?;
        let written = match rows.as_slice() {
            [] => Ok(Vec::new()),
            // A statement that fails undoes itself; several need a savepoint around them.
            [_] => insert_each(self, &rows),
            _ => insert_all_or_none(self, &rows),
        };
        written.map_err(error).and_then(answer)
    }
}

/// Lets the transaction itself be given, without a `*` in front.
macro_rules! is_a_connection {
    ($($name:ty),+) => { $(
        impl Transaction for &$name {
            type Out<T: Send + 'static> = Result<T>;

            fn insert<T: Send + 'static>(self, batch: Result<Batch>, answer: fn(Vec<Written>) -> Result<T>) -> Result<T> {
                let connection: &Connection = self;
                connection.insert(batch, answer)
            }
        }
    )+ };
}

is_a_connection!(::rusqlite::Transaction<'_>, Savepoint<'_>);

fn insert_all_or_none(connection: &Connection, rows: &[Columns<'_>]) -> Result<Vec<Written>, SqlError> {
    connection.execute_batch("SAVEPOINT postrider_write")?;
    let written = insert_each(connection, rows);
    if written.is_err() {
        connection.execute_batch("ROLLBACK TO postrider_write")?;
    }
    connection.execute_batch("RELEASE postrider_write")?;
    written
}

fn insert_each(connection: &Connection, rows: &[Columns<'_>]) -> Result<Vec<Written>, SqlError> {
    let mut statement = connection.prepare_cached(INSERT)?;
    let insert = |row: &Columns<'_>| {
        let position = statement.insert(params![
            row.event.id.to_string(),
            row.event.event_type,
            row.aggregate_type,
            row.aggregate_id,
            row.key,
            row.event.payload.as_ref(),
            row.headers,
            row.event.time.as_micros(),
            row.event.topic,
            row.event.max_attempts,
            row.expires_at,
            row.action,
            row.event.namespace,
            row.event.producer,
        ])?;
        Ok(Written { id: row.event.id, position: Position::new(position) })
    };
    rows.iter().map(insert).collect()
}

fn error(error: SqlError) -> Error {
    insert_failed(error.sqlite_error().map(|failure| failure.extended_code), error)
}
