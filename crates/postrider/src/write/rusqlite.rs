//! Writing in a rusqlite transaction; returns the result itself.

use ::rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use ::rusqlite::{Connection, Error as SqlError, Savepoint, params_from_iter};

use super::columns::{Columns, Value};
use super::sqlite::INSERT;
use super::{ActionStep, Batch, Step, Written, rows, rows_sqlite, step};
use crate::inbox::InboxStep;
use crate::sqlite_error::insert_failed;
use crate::{Code, Error, Position, Result};

impl_blocking_transaction!(insert, run_step: &Connection, &::rusqlite::Transaction<'_>, &Savepoint<'_>);

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

fn run_step(connection: &Connection, step: &Step) -> Result<u64> {
    let may_commit_alone = matches!(
        step,
        Step::Inbox(InboxStep::DeleteExpired { .. }) | Step::Action(ActionStep::Delete { .. })
    );
    if connection.is_autocommit() && !may_commit_alone {
        return Err(Error::new(Code::TransactionMissing, "the connection has no open transaction"));
    }
    step::run_blocking(step, |statement, values| {
        let mut statement = connection.prepare_cached(statement).map_err(error)?;
        Ok(statement.execute(params_from_iter(values)).map_err(error)? as u64)
    })
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

pub(crate) fn error(error: SqlError) -> Error {
    insert_failed(error.sqlite_error().map(|failure| failure.extended_code), error)
}
