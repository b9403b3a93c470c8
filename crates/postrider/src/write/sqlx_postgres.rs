//! Writing in a sqlx transaction on PostgreSQL; returns a future.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row};
use uuid::Uuid;

use super::columns::{Columns, Value};
use super::postgres::{Array, INSERT, arrays, written_rows};
use super::rows_postgres::RowColumns;
use super::{Batch, Step, Written, step};
use crate::inbox::statements::{SqlFamily, StepConnection};
use crate::layout::RowTable;
use crate::postgres_error::insert_failed;
use crate::{Error, Result};

impl_async_transaction!('c, insert, run_step: &'c mut PgConnection, &'c mut sqlx::Transaction<'_, Postgres>);

async fn insert(connection: &mut PgConnection, batch: &Batch) -> Result<Vec<Written>> {
    if let Some(table) = batch.row_table() {
        return insert_into_layout(connection, table, batch).await;
    }
    let rows = Columns::of(batch)?;
    let answer = insert_rows(connection, batch.schema().put_into(&INSERT), &rows).await.map_err(error)?;
    let reported = answer.iter().map(reported).collect::<Result<_, sqlx::Error>>().map_err(error)?;
    written_rows(&rows, reported)
}

/// Inserts into a table of another layout. The only texts inserted into the statement are checked
/// [`Ident`](crate::Ident)s.
async fn insert_into_layout(
    connection: &mut PgConnection,
    table: &RowTable,
    batch: &Batch,
) -> Result<Vec<Written>> {
    let columns = RowColumns::of(batch)?;
    let statement = columns.statement(table);
    let mut query = sqlx::query(AssertSqlSafe(statement));
    for column in columns.all() {
        query = query.bind(column);
    }
    let rows = query.fetch_all(connection).await.map_err(error)?;
    let reported = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    columns.written(batch, reported.collect::<Result<_, sqlx::Error>>().map_err(error)?)
}

/// sqlx prepares the statement once per connection. The only text put into it is a checked [`Ident`](crate::Ident).
async fn insert_rows(
    connection: &mut PgConnection,
    statement: String,
    rows: &[Columns<'_>],
) -> Result<Vec<PgRow>, sqlx::Error> {
    let mut query = sqlx::query(AssertSqlSafe(statement));
    for array in arrays(rows) {
        query = match array {
            Array::Ids(ids) => query.bind(ids),
            Array::Texts(texts) => query.bind(texts),
            Array::Bytes(bytes) => query.bind(bytes),
            Array::Numbers(numbers) => query.bind(numbers),
        };
    }
    query.fetch_all(connection).await
}

async fn run_step(connection: &mut PgConnection, step: &Step) -> Result<u64> {
    step::run(connection, step).await
}

impl StepConnection for PgConnection {
    fn sql_family(&self) -> Result<SqlFamily> {
        Ok(SqlFamily::Postgres)
    }

    async fn execute(&mut self, statement: String, values: &[Value<'_>]) -> Result<u64> {
        query(statement, values).execute(self).await.map(|done| done.rows_affected()).map_err(error)
    }

    async fn numbers(&mut self, statement: String, values: &[Value<'_>]) -> Result<Vec<i64>> {
        let rows = query(statement, values).fetch_all(self).await.map_err(error)?;
        rows.iter().map(|row| row.try_get(0).map_err(error)).collect()
    }
}

type Query<'q> = sqlx::query::Query<'q, Postgres, sqlx::postgres::PgArguments>;

/// The only text put into the statement is a checked [`Ident`](crate::Ident).
fn query<'q>(statement: String, values: &[Value<'q>]) -> Query<'q> {
    values.iter().fold(sqlx::query(AssertSqlSafe(statement)), |query, value| match *value {
        Value::Id(id) => query.bind(id),
        Value::Text(text) => query.bind(text),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Number(number) => query.bind(number),
    })
}

fn reported(row: &PgRow) -> Result<(Uuid, i64), sqlx::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

pub(crate) fn error(error: sqlx::Error) -> Error {
    let state = error.as_database_error().and_then(|failure| failure.code()).map(|code| code.into_owned());
    insert_failed(state.as_deref(), error)
}
