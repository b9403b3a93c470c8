//! Writing in a diesel-async transaction on MySQL or MariaDB; returns a future.

use diesel::QueryableByName;
use diesel::mysql::Mysql;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as SqlError};
use diesel::sql_types::{BigInt, Binary, Nullable, Text, Unsigned};
use diesel_async::{AsyncMysqlConnection, RunQueryDsl, SimpleAsyncConnection};

use super::columns::{Columns, Value};
use super::diesel_error::{is_deadlock, is_read_only, is_schema_missing};
use super::mysql_driver::{InsertConnection, insert};
use super::{Step, step};
use crate::inbox::statements::{SqlFamily, StepConnection};
use crate::mysql_error::{DUPLICATE, insert_failed, is_duplicate};
use crate::{Error, Result};

impl_async_transaction!('c, insert, run_step: &'c mut AsyncMysqlConnection);

#[derive(QueryableByName)]
struct Numbers {
    #[diesel(sql_type = BigInt)]
    number: i64,
    #[diesel(sql_type = BigInt)]
    created: i64,
}

#[derive(QueryableByName)]
struct First {
    #[diesel(sql_type = Unsigned<BigInt>)]
    position: u64,
}

impl InsertConnection for AsyncMysqlConnection {
    async fn execute(&mut self, statement: &'static str) -> Result<()> {
        // Not prepared: servers cannot prepare every statement.
        self.batch_execute(statement).await.map_err(error)
    }

    /// diesel does not return the server's last insert id, so one more query reads it.
    async fn insert(&mut self, statement: String, rows: &[Columns<'_>]) -> Result<u64> {
        let query = query(statement, rows.iter().flat_map(Columns::values));
        query.execute(self).await.map_err(error)?;
        last_insert_id(self).await
    }

    async fn insert_texts(&mut self, statement: String, values: Vec<Option<String>>) -> Result<u64> {
        let texts = values.iter().map(|value| Value::Text(value.as_deref()));
        query(statement, texts).execute(self).await.map_err(error)?;
        last_insert_id(self).await
    }

    async fn numbers(&mut self, statement: String) -> Result<Vec<(i64, i64)>> {
        let rows: Vec<Numbers> = diesel::sql_query(statement).get_results(self).await.map_err(error)?;
        Ok(rows.into_iter().map(|row| (row.number, row.created)).collect())
    }
}

async fn last_insert_id(connection: &mut AsyncMysqlConnection) -> Result<u64> {
    let first = diesel::sql_query("SELECT LAST_INSERT_ID() AS position");
    first.get_result::<First>(connection).await.map(|first| first.position).map_err(error)
}

async fn run_step(connection: &mut AsyncMysqlConnection, step: &Step) -> Result<u64> {
    step::run(connection, step).await
}

impl StepConnection for AsyncMysqlConnection {
    fn sql_family(&self) -> Result<SqlFamily> {
        Ok(SqlFamily::MySql)
    }

    async fn execute(&mut self, statement: String, values: &[Value<'_>]) -> Result<u64> {
        match query(statement, values.iter().copied()).execute(self).await {
            Ok(rows) => Ok(rows as u64),
            Err(SqlError::DatabaseError(DatabaseErrorKind::UniqueViolation, answer))
                if is_duplicate(DUPLICATE, answer.message()) =>
            {
                Ok(0)
            }
            Err(failure) => Err(error(failure)),
        }
    }
}

type Query<'q> = BoxedSqlQuery<'q, Mysql, SqlQuery>;

fn query<'q>(statement: String, values: impl Iterator<Item = Value<'q>>) -> Query<'q> {
    values.fold(diesel::sql_query(statement).into_boxed::<Mysql>(), |query, value| match value {
        Value::Id(id) => query.bind::<Binary, _>(id.as_bytes().as_slice()),
        Value::Text(text) => query.bind::<Nullable<Text>, _>(text),
        Value::Bytes(bytes) => query.bind::<Binary, _>(bytes),
        Value::Number(number) => query.bind::<Nullable<BigInt>, _>(number),
    })
}

/// diesel does not return the server's error number; this derives it from the message or the kind.
pub(crate) fn error(error: SqlError) -> Error {
    let number = match &error {
        _ if is_schema_missing(&error) => Some(1146),
        _ if is_read_only(&error) => Some(1792),
        _ if is_deadlock(&error) => Some(1213),
        _ => None,
    };
    insert_failed(number, error)
}
