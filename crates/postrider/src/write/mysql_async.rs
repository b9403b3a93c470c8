//! Writing in a mysql_async transaction; returns a future. One round trip, or two when a connection writes this number
//! of events for the first time.

use ::mysql_async::prelude::Queryable;
use ::mysql_async::{Conn, Error as SqlError, Params, Value};

use super::columns::{self, Columns};
use super::mysql_driver::{self, InsertConnection};
use super::{Batch, Step, Written, step};
use crate::inbox::statements::{SqlFamily, StepConnection};
use crate::mysql_error::{insert_failed, is_duplicate};
use crate::{Error, Result};

impl_async_transaction!('c, insert, run_step: &'c mut Conn, &'c mut ::mysql_async::Transaction<'_>);

async fn insert<Q: Queryable + Send>(connection: &mut Q, batch: &Batch) -> Result<Vec<Written>> {
    mysql_driver::insert(&mut Connection(connection), batch).await
}

struct Connection<'c, Q>(&'c mut Q);

impl<Q: Queryable + Send> InsertConnection for Connection<'_, Q> {
    async fn execute(&mut self, statement: &'static str) -> Result<()> {
        self.0.query_drop(statement).await.map_err(error)
    }

    async fn insert(&mut self, statement: String, rows: &[Columns<'_>]) -> Result<u64> {
        let values = rows.iter().flat_map(Columns::values).map(value).collect();
        let answer = self.0.exec_iter(statement, Params::Positional(values)).await.map_err(error)?;
        let first = answer.last_insert_id().unwrap_or_default();
        answer.drop_result().await.map_err(error)?;
        Ok(first)
    }

    async fn insert_texts(&mut self, statement: String, values: Vec<Option<String>>) -> Result<u64> {
        let values = values.into_iter().map(Value::from).collect();
        let answer = self.0.exec_iter(statement, Params::Positional(values)).await.map_err(error)?;
        let first = answer.last_insert_id().unwrap_or_default();
        answer.drop_result().await.map_err(error)?;
        Ok(first)
    }

    async fn numbers(&mut self, statement: String) -> Result<Vec<(i64, i64)>> {
        self.0.query(statement).await.map_err(error)
    }
}

async fn run_step<Q: Queryable + Send>(connection: &mut Q, step: &Step) -> Result<u64> {
    step::run(&mut Connection(connection), step).await
}

impl<Q: Queryable + Send> StepConnection for Connection<'_, Q> {
    fn sql_family(&self) -> Result<SqlFamily> {
        Ok(SqlFamily::MySql)
    }

    async fn execute(&mut self, statement: String, values: &[columns::Value<'_>]) -> Result<u64> {
        let values = values.iter().copied().map(value).collect();
        let answer = match self.0.exec_iter(statement, Params::Positional(values)).await {
            Ok(answer) => answer,
            Err(SqlError::Server(answer)) if is_duplicate(answer.code, &answer.message) => return Ok(0),
            Err(failure) => return Err(error(failure)),
        };
        let rows = answer.affected_rows();
        answer.drop_result().await.map_err(error)?;
        Ok(rows)
    }
}

fn value(value: columns::Value<'_>) -> Value {
    match value {
        columns::Value::Id(id) => id.as_bytes().into(),
        columns::Value::Text(text) => text.into(),
        columns::Value::Bytes(bytes) => bytes.into(),
        columns::Value::Number(number) => number.into(),
    }
}

pub(crate) fn error(error: SqlError) -> Error {
    let number = if let SqlError::Server(answer) = &error { Some(answer.code) } else { None };
    insert_failed(number, error)
}
