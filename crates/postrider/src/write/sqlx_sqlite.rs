//! Writing in a sqlx transaction on SQLite; returns a future.

use sqlx::{Connection, Sqlite, SqliteConnection};

use super::columns::{Columns, Value};
use super::sqlite::INSERT;
use super::{Batch, Step, Written, rows, rows_sqlite, step};
use crate::inbox::statements::{SqlFamily, StepConnection};
use crate::sqlite_error::insert_failed;
use crate::{Error, Position, Result};

impl_async_transaction!('c, insert, run_step: &'c mut SqliteConnection, &'c mut sqlx::Transaction<'_, Sqlite>);

async fn insert(connection: &mut SqliteConnection, batch: &Batch) -> Result<Vec<Written>> {
    if let Some(table) = batch.row_table() {
        let statement = rows_sqlite::statement(table)?;
        let values = rows_sqlite::values(table, batch.events())?;
        let reported = insert_rows(connection, &statement, &values).await.map_err(error)?;
        return rows::written(table, batch.events(), reported);
    }
    let rows = Columns::of(batch)?;
    // A failed statement is undone by SQLite; several statements need a savepoint.
    let written = match rows.as_slice() {
        [_] => insert_each(connection, &rows).await,
        _ => insert_all_or_none(connection, &rows).await,
    };
    written.map_err(error)
}

/// Inserts into a table of another layout. The only text inserted into the statement is a checked
/// [`Ident`](crate::Ident).
async fn insert_rows(
    connection: &mut SqliteConnection,
    statement: &str,
    values: &[[&str; 4]],
) -> Result<Vec<(i64, i64)>, sqlx::Error> {
    let mut savepoint = connection.begin().await?;
    let mut reported = Vec::with_capacity(values.len());
    for row in values {
        let mut query = sqlx::query_as(sqlx::AssertSqlSafe(statement.to_owned()));
        for value in row {
            query = query.bind(*value);
        }
        reported.push(query.fetch_one(&mut *savepoint).await?);
    }
    savepoint.commit().await.map(|()| reported)
}

/// sqlx's nested transaction is a savepoint that is rolled back when the future is dropped.
async fn insert_all_or_none(
    connection: &mut SqliteConnection,
    rows: &[Columns<'_>],
) -> Result<Vec<Written>, sqlx::Error> {
    let mut savepoint = connection.begin().await?;
    match insert_each(&mut savepoint, rows).await {
        Ok(written) => savepoint.commit().await.map(|()| written),
        Err(error) => savepoint.rollback().await.and(Err(error)),
    }
}

async fn insert_each(
    connection: &mut SqliteConnection,
    rows: &[Columns<'_>],
) -> Result<Vec<Written>, sqlx::Error> {
    let mut written = Vec::with_capacity(rows.len());
    for row in rows {
        let mut query = sqlx::query(INSERT.as_str());
        for value in row.values() {
            query = bind(query, value);
        }
        let done = query.execute(&mut *connection).await?;
        written.push(Written { id: row.event.id, position: Position::new(done.last_insert_rowid()) });
    }
    Ok(written)
}

async fn run_step(connection: &mut SqliteConnection, step: &Step) -> Result<u64> {
    step::run(connection, step).await
}

impl StepConnection for SqliteConnection {
    fn sql_family(&self) -> Result<SqlFamily> {
        Ok(SqlFamily::Sqlite)
    }

    async fn execute(&mut self, statement: String, values: &[Value<'_>]) -> Result<u64> {
        let mut query = sqlx::query(sqlx::AssertSqlSafe(statement));
        for value in values {
            query = bind(query, *value);
        }
        query.execute(self).await.map(|done| done.rows_affected()).map_err(error)
    }
}

type Query<'q> = sqlx::query::Query<'q, Sqlite, sqlx::sqlite::SqliteArguments>;

fn bind<'q>(query: Query<'q>, value: Value<'q>) -> Query<'q> {
    match value {
        Value::Id(id) => query.bind(id.to_string()),
        Value::Text(text) => query.bind(text),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Number(number) => query.bind(number),
    }
}

pub(crate) fn error(error: sqlx::Error) -> Error {
    let code = error.as_database_error().and_then(|failure| failure.code());
    insert_failed(code.and_then(|code| code.parse().ok()), error)
}
