//! Writing in a diesel-async transaction on PostgreSQL; returns a future.

use diesel::QueryableByName;
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::result::{DatabaseErrorKind, Error as SqlError};
use diesel::sql_types::{Array as SqlArray, BigInt, Binary, Nullable, Text, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use super::columns::{Columns, Value};
use super::diesel_error::{is_deadlock, is_read_only, is_schema_missing};
use super::postgres::{Array, INSERT, arrays, written_rows};
use super::rows_postgres::RowColumns;
use super::{Batch, Step, Written, step};
use crate::inbox::statements::{SqlFamily, StepConnection};
use crate::layout::RowTable;
use crate::postgres_error::insert_failed;
use crate::{Error, Result};

impl_async_transaction!('c, insert, run_step: &'c mut AsyncPgConnection);

#[derive(QueryableByName)]
struct Inserted {
    #[diesel(sql_type = SqlUuid)]
    id: Uuid,
    #[diesel(sql_type = BigInt)]
    position: i64,
}

async fn insert(connection: &mut AsyncPgConnection, batch: &Batch) -> Result<Vec<Written>> {
    if let Some(table) = batch.row_table() {
        return insert_into_layout(connection, table, batch).await;
    }
    let rows = Columns::of(batch)?;
    let mut query = diesel::sql_query(batch.schema().put_into(&INSERT)).into_boxed::<Pg>();
    for array in arrays(&rows) {
        query = match array {
            Array::Ids(ids) => query.bind::<SqlArray<SqlUuid>, _>(ids),
            Array::Texts(texts) => query.bind::<SqlArray<Nullable<Text>>, _>(texts),
            Array::Bytes(bytes) => query.bind::<SqlArray<Binary>, _>(bytes),
            Array::Numbers(numbers) => query.bind::<SqlArray<Nullable<BigInt>>, _>(numbers),
        };
    }
    let inserted: Vec<Inserted> = query.get_results(connection).await.map_err(error)?;
    written_rows(&rows, inserted.into_iter().map(|row| (row.id, row.position)).collect())
}

#[derive(QueryableByName)]
struct InsertedRow {
    #[diesel(sql_type = Text)]
    number: String,
    #[diesel(sql_type = BigInt)]
    created: i64,
}

/// Inserts into a table of another layout.
async fn insert_into_layout(
    connection: &mut AsyncPgConnection,
    table: &RowTable,
    batch: &Batch,
) -> Result<Vec<Written>> {
    let columns = RowColumns::of(batch)?;
    let mut query = diesel::sql_query(columns.named_statement(table)).into_boxed::<Pg>();
    for column in columns.all() {
        let texts: Vec<Option<&str>> = column.iter().map(Option::as_deref).collect();
        query = query.bind::<SqlArray<Nullable<Text>>, _>(texts);
    }
    let inserted: Vec<InsertedRow> = query.get_results(connection).await.map_err(error)?;
    columns.written(batch, inserted.into_iter().map(|row| (row.number, row.created)).collect())
}

async fn run_step(connection: &mut AsyncPgConnection, step: &Step) -> Result<u64> {
    step::run(connection, step).await
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

impl StepConnection for AsyncPgConnection {
    fn sql_family(&self) -> Result<SqlFamily> {
        Ok(SqlFamily::Postgres)
    }

    async fn execute(&mut self, statement: String, values: &[Value<'_>]) -> Result<u64> {
        query(statement, values).execute(self).await.map(|rows| rows as u64).map_err(error)
    }

    /// diesel finds a column by its name.
    async fn numbers(&mut self, statement: String, values: &[Value<'_>]) -> Result<Vec<i64>> {
        let named = format!("SELECT answer.number FROM ({statement}) AS answer (number)");
        let rows: Vec<Number> = query(named, values).get_results(self).await.map_err(error)?;
        Ok(rows.into_iter().map(|row| row.number).collect())
    }
}

type Query<'q> = BoxedSqlQuery<'q, Pg, SqlQuery>;

fn query<'q>(statement: String, values: &[Value<'q>]) -> Query<'q> {
    values.iter().fold(diesel::sql_query(statement).into_boxed::<Pg>(), |query, value| match *value {
        Value::Id(id) => query.bind::<SqlUuid, _>(*id),
        Value::Text(text) => query.bind::<Nullable<Text>, _>(text),
        Value::Bytes(bytes) => query.bind::<Binary, _>(bytes),
        Value::Number(number) => query.bind::<Nullable<BigInt>, _>(number),
    })
}

/// diesel does not return the SQLSTATE; this derives it from the message or the kind.
pub(crate) fn error(error: SqlError) -> Error {
    let state = match &error {
        SqlError::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => Some("40001"),
        _ if is_schema_missing(&error) => Some("42P01"),
        _ if is_read_only(&error) => Some("25006"),
        _ if is_deadlock(&error) => Some("40P01"),
        _ => None,
    };
    insert_failed(state, error)
}
