//! Writing in a rusqlite transaction: the answer is there at once.

use ::rusqlite::{Connection, Error as SqlError, Savepoint, params};

use super::columns::Columns;
use super::sqlite::INSERT;
use super::{Batch, Written};
use crate::sqlite_error::insert_failed;
use crate::{Error, Position, Result};

answers_at_once!(insert: &Connection, &::rusqlite::Transaction<'_>, &Savepoint<'_>);

fn insert(connection: &Connection, batch: &Batch) -> Result<Vec<Written>> {
    let rows = Columns::of(batch)?;
    // A statement that fails undoes itself; several need a savepoint around them.
    let written = match rows.as_slice() {
        [_] => insert_each(connection, &rows),
        _ => insert_all_or_none(connection, &rows),
    };
    written.map_err(error)
}

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
