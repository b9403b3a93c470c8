//! Writing in a rusqlite transaction: the answer is there at once.

use ::rusqlite::{Connection, Error as SqlError, Savepoint, params};

use super::columns::Columns;
use super::sqlite::INSERT;
use super::{Batch, Written, rows, rows_sqlite};
use crate::sqlite_error::insert_failed;
use crate::{Error, Position, Result};

answers_at_once!(insert: &Connection, &::rusqlite::Transaction<'_>, &Savepoint<'_>);

fn insert(connection: &Connection, batch: &Batch) -> Result<Vec<Written>> {
    if let Some(table) = batch.rows() {
        let statement = rows_sqlite::statement(table)?;
        let values = batch
            .events()
            .iter()
            .map(|event| rows_sqlite::values(table, event))
            .collect::<Result<Vec<_>>>()?;
        let told = all_or_none(connection, values.len(), || insert_rows(connection, &statement, &values));
        return rows::written(table, batch.events(), told.map_err(error)?);
    }
    let rows = Columns::of(batch)?;
    all_or_none(connection, rows.len(), || insert_each(connection, &rows)).map_err(error)
}

/// A statement that fails undoes itself; several need a savepoint around them.
fn all_or_none<T>(
    connection: &Connection,
    statements: usize,
    insert: impl FnOnce() -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    if statements == 1 {
        return insert();
    }
    connection.execute_batch("SAVEPOINT postrider_write")?;
    let written = insert();
    if written.is_err() {
        connection.execute_batch("ROLLBACK TO postrider_write")?;
    }
    connection.execute_batch("RELEASE postrider_write")?;
    written
}

/// Into a table of another layout.
fn insert_rows(
    connection: &Connection,
    statement: &str,
    values: &[[&str; 4]],
) -> Result<Vec<(i64, i64)>, SqlError> {
    let mut statement = connection.prepare_cached(statement)?;
    values.iter().map(|row| statement.query_row(row, |told| Ok((told.get(0)?, told.get(1)?)))).collect()
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
