//! Writing in a sqlx transaction on MySQL or MariaDB; returns a future.

use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection};

use super::columns::{Columns, Value};
use super::mysql_driver::{self, InsertConnection};
use super::{Batch, Step, Written, step};
use crate::inbox::statements::{SqlFamily, StepConnection};
use crate::mysql_error::{insert_failed, is_duplicate};
use crate::{Error, Result};

impl_async_transaction!('c, insert, run_step: &'c mut MySqlConnection, &'c mut sqlx::Transaction<'_, MySql>);

async fn insert(connection: &mut MySqlConnection, batch: &Batch) -> Result<Vec<Written>> {
    mysql_driver::insert(connection, batch).await
}

impl InsertConnection for MySqlConnection {
    async fn execute(&mut self, statement: &'static str) -> Result<()> {
        sqlx::raw_sql(statement).execute(self).await.map(drop).map_err(error)
    }

    /// sqlx prepares the statement once per connection and number of rows. The only text put into it is a checked
    /// [`Ident`](crate::Ident).
    async fn insert(&mut self, statement: String, rows: &[Columns<'_>]) -> Result<u64> {
        let query = query(statement, rows.iter().flat_map(Columns::values));
        query.execute(self).await.map(|done| done.last_insert_id()).map_err(error)
    }

    async fn insert_texts(&mut self, statement: String, values: Vec<Option<String>>) -> Result<u64> {
        let mut query = sqlx::query(AssertSqlSafe(statement));
        for value in values {
            query = query.bind(value);
        }
        query.execute(self).await.map(|done| done.last_insert_id()).map_err(error)
    }

    async fn numbers(&mut self, statement: String) -> Result<Vec<(i64, i64)>> {
        sqlx::query_as(AssertSqlSafe(statement)).fetch_all(self).await.map_err(error)
    }
}

async fn run_step(connection: &mut MySqlConnection, step: &Step) -> Result<u64> {
    step::run(connection, step).await
}

impl StepConnection for MySqlConnection {
    fn sql_family(&self) -> Result<SqlFamily> {
        Ok(SqlFamily::MySql)
    }

    async fn execute(&mut self, statement: String, values: &[Value<'_>]) -> Result<u64> {
        match query(statement, values.iter().copied()).execute(self).await {
            Ok(done) => Ok(done.rows_affected()),
            Err(failure) => match answer_of(&failure) {
                Some(answer) if is_duplicate(answer.number(), answer.message()) => Ok(0),
                _ => Err(error(failure)),
            },
        }
    }
}

type Query<'q> = sqlx::query::Query<'q, MySql, sqlx::mysql::MySqlArguments>;

fn query<'q>(statement: String, values: impl Iterator<Item = Value<'q>>) -> Query<'q> {
    values.fold(sqlx::query(AssertSqlSafe(statement)), |query, value| match value {
        Value::Id(id) => query.bind(id.as_bytes().as_slice()),
        Value::Text(text) => query.bind(text),
        Value::Bytes(bytes) => query.bind(bytes),
        Value::Number(number) => query.bind(number),
    })
}

fn answer_of(error: &sqlx::Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error().and_then(|failure| failure.try_downcast_ref())
}

pub(crate) fn error(error: sqlx::Error) -> Error {
    insert_failed(answer_of(&error).map(MySqlDatabaseError::number), error)
}
