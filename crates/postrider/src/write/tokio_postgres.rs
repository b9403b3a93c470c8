//! Writing in a tokio-postgres transaction: one round trip per call.

use ::tokio_postgres::types::{ToSql, Type};
use ::tokio_postgres::{Client, Error as SqlError, Row};
use uuid::Uuid;

use super::columns::{Columns, Value};
use super::postgres::{Array, INSERT, INSERT_ONE, arrays, written_rows};
use super::rows_postgres::RowColumns;
use super::{Batch, Step, Written, step};
use crate::inbox::statements::{SqlFamily, StepConnection};
use crate::layout::RowTable;
use crate::postgres_error::insert_failed;
use crate::{Error, Result};

impl_async_transaction!('c, insert, run_step: &'c Client);
impl_async_transaction!('c, insert_in, run_step_in: &'c ::tokio_postgres::Transaction<'_>);

async fn insert_in(tx: &::tokio_postgres::Transaction<'_>, batch: &Batch) -> Result<Vec<Written>> {
    insert(tx.client(), batch).await
}

async fn insert(client: &Client, batch: &Batch) -> Result<Vec<Written>> {
    if let Some(table) = batch.row_table() {
        return insert_into_layout(client, table, batch).await;
    }
    let rows = Columns::of(batch)?;
    let answer = match rows.as_slice() {
        [row] => insert_one(client, &batch.schema().put_into(&INSERT_ONE), row).await,
        rows => insert_rows(client, &batch.schema().put_into(&INSERT), rows).await,
    };
    let answer = answer.map_err(error)?;
    let reported = answer.iter().map(reported).collect::<Result<_, SqlError>>().map_err(error)?;
    written_rows(&rows, reported)
}

/// Inserts into a table of another layout.
async fn insert_into_layout(client: &Client, table: &RowTable, batch: &Batch) -> Result<Vec<Written>> {
    let columns = RowColumns::of(batch)?;
    let params: Vec<(&(dyn ToSql + Sync), Type)> =
        columns.all().into_iter().map(|column| (column as _, Type::TEXT_ARRAY)).collect();
    let rows = client.query_typed(&columns.statement(table), &params).await.map_err(error)?;
    let reported = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    columns.written(batch, reported.collect::<Result<_, SqlError>>().map_err(error)?)
}

/// The statement is sent with its parameter types and need not be prepared. That saves a round trip, and works behind a
/// pooler without support for prepared statements.
async fn insert_rows(client: &Client, statement: &str, rows: &[Columns<'_>]) -> Result<Vec<Row>, SqlError> {
    let arrays: Vec<Array<'_>> = arrays(rows).collect();
    let params: Vec<Param<'_>> = arrays.iter().map(array_param).collect();
    client.query_typed(statement, &params).await
}

/// The same for one event.
async fn insert_one(client: &Client, statement: &str, row: &Columns<'_>) -> Result<Vec<Row>, SqlError> {
    let values: Vec<Value<'_>> = row.values().collect();
    let params: Vec<Param<'_>> = values.iter().map(value_param).collect();
    client.query_typed(statement, &params).await
}

async fn run_step_in(tx: &::tokio_postgres::Transaction<'_>, step: &Step) -> Result<u64> {
    run_step(tx.client(), step).await
}

async fn run_step(mut client: &Client, step: &Step) -> Result<u64> {
    step::run(&mut client, step).await
}

impl StepConnection for &Client {
    fn sql_family(&self) -> Result<SqlFamily> {
        Ok(SqlFamily::Postgres)
    }

    async fn execute(&mut self, statement: String, values: &[Value<'_>]) -> Result<u64> {
        let params: Vec<Param<'_>> = values.iter().map(value_param).collect();
        self.execute_typed(&statement, &params).await.map_err(error)
    }

    async fn numbers(&mut self, statement: String, values: &[Value<'_>]) -> Result<Vec<i64>> {
        let params: Vec<Param<'_>> = values.iter().map(value_param).collect();
        let rows = self.query_typed(&statement, &params).await.map_err(error)?;
        rows.iter().map(|row| row.try_get(0).map_err(error)).collect()
    }
}

type Param<'a> = (&'a (dyn ToSql + Sync), Type);

fn array_param<'a>(array: &'a Array<'a>) -> Param<'a> {
    match array {
        Array::Ids(ids) => (ids, Type::UUID_ARRAY),
        Array::Texts(texts) => (texts, Type::TEXT_ARRAY),
        Array::Bytes(bytes) => (bytes, Type::BYTEA_ARRAY),
        Array::Numbers(numbers) => (numbers, Type::INT8_ARRAY),
    }
}

fn value_param<'a>(value: &'a Value<'a>) -> Param<'a> {
    match value {
        Value::Id(id) => (*id, Type::UUID),
        Value::Text(text) => (text, Type::TEXT),
        Value::Bytes(bytes) => (bytes, Type::BYTEA),
        Value::Number(number) => (number, Type::INT8),
    }
}

fn reported(row: &Row) -> Result<(Uuid, i64), SqlError> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

pub(crate) fn error(error: SqlError) -> Error {
    let state = error.code().map(|state| state.code().to_owned());
    insert_failed(state.as_deref(), error)
}
