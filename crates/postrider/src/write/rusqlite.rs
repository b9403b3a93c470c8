//! Writing in a rusqlite transaction; returns the result itself.

use ::rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use ::rusqlite::{Connection, Error as SqlError, Savepoint, params_from_iter};

use super::columns::{Columns, Value};
use super::sqlite::INSERT;
use super::{Batch, Written, rows, rows_sqlite};
use crate::inbox::InboxStep;
use crate::inbox::executor::{self, Database};
use crate::sqlite_error::insert_failed;
use crate::{Code, Error, Position, Result};

impl_blocking_transaction!(insert, inbox_step: &Connection, &::rusqlite::Transaction<'_>, &Savepoint<'_>);

fn insert(connection: &Connection, batch: &Batch) -> Result<Vec<Written>> {
    if let Some(table) = batch.row_table() {
        let statement = rows_sqlite::statement(table)?;
        let values = rows_sqlite::values(table, batch.events())?;
        let reported = all_or_none(connection, values.len(), || insert_rows(connection, &statement, &values));
        return rows::written(table, batch.events(), reported.map_err(error)?);
    }
    let rows = Columns::of(batch)?;
    all_or_none(connection, rows.len(), || insert_each(connection, &rows)).map_err(error)
}

/// A failed statement is undone by SQLite; several statements need a savepoint.
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

/// Inserts into a table of another layout.
fn insert_rows(
    connection: &Connection,
    statement: &str,
    values: &[[&str; 4]],
) -> Result<Vec<(i64, i64)>, SqlError> {
    let mut statement = connection.prepare_cached(statement)?;
    values
        .iter()
        .map(|row| statement.query_row(row, |reported| Ok((reported.get(0)?, reported.get(1)?))))
        .collect()
}

fn insert_each(connection: &Connection, rows: &[Columns<'_>]) -> Result<Vec<Written>, SqlError> {
    let mut statement = connection.prepare_cached(&INSERT)?;
    let insert = |row: &Columns<'_>| {
        let position = statement.insert(params_from_iter(row.values()))?;
        Ok(Written { id: row.event.id, position: Position::new(position) })
    };
    rows.iter().map(insert).collect()
}

fn inbox_step(connection: &Connection, step: &InboxStep) -> Result<u64> {
    if connection.is_autocommit() && matches!(step, InboxStep::Receive { .. }) {
        return Err(Error::new(Code::TransactionMissing, "the connection has no open transaction"));
    }
    let id = executor::id_of(step);
    let (statement, values) =
        executor::statement(Database::Sqlite, step, &id).ok_or_else(executor::only_on_postgres)?;
    let rows = connection
        .prepare_cached(&statement)
        .and_then(|mut statement| statement.execute(params_from_iter(values)))
        .map_err(|failure| executor::about(step, error(failure)))?;
    Ok(rows as u64)
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>, SqlError> {
        Ok(match self {
            Self::Id(id) => ToSqlOutput::from(id.to_string()),
            Self::Text(text) => ToSqlOutput::Borrowed((*text).into()),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Self::Number(number) => ToSqlOutput::Borrowed(number.map_or(ValueRef::Null, ValueRef::Integer)),
        })
    }
}

fn error(error: SqlError) -> Error {
    insert_failed(error.sqlite_error().map(|failure| failure.extended_code), error)
}
