//! Writing in a diesel-async transaction on PostgreSQL; returns a future.

use diesel::QueryableByName;
use diesel::pg::Pg;
use diesel::result::{DatabaseErrorKind, Error as SqlError};
use diesel::sql_types::{Array as Sql, BigInt, Binary, Nullable, Text, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use super::columns::Columns;
use super::diesel_error::{is_read_only, is_schema_missing};
use super::postgres::{Array, INSERT, arrays, written_rows};
use super::{Batch, Written};
use crate::postgres_error::insert_failed;
use crate::{Error, Result};

impl_async_transaction!('c, insert: &'c mut AsyncPgConnection);

#[derive(QueryableByName)]
struct Inserted {
    #[diesel(sql_type = SqlUuid)]
    id: Uuid,
    #[diesel(sql_type = BigInt)]
    position: i64,
}

async fn insert(connection: &mut AsyncPgConnection, batch: &Batch) -> Result<Vec<Written>> {
    let rows = Columns::of(batch)?;
    let mut query = diesel::sql_query(batch.schema().put_into(&INSERT)).into_boxed::<Pg>();
    for array in arrays(&rows) {
        query = match array {
            Array::Ids(ids) => query.bind::<Sql<SqlUuid>, _>(ids),
            Array::Texts(texts) => query.bind::<Sql<Nullable<Text>>, _>(texts),
            Array::Bytes(bytes) => query.bind::<Sql<Binary>, _>(bytes),
            Array::Numbers(numbers) => query.bind::<Sql<Nullable<BigInt>>, _>(numbers),
        };
    }
    let inserted: Vec<Inserted> = query.get_results(connection).await.map_err(error)?;
    written_rows(&rows, inserted.into_iter().map(|row| (row.id, row.position)).collect())
}

/// diesel does not return the SQLSTATE; this derives it from the message or the kind.
fn error(error: SqlError) -> Error {
    let state = match &error {
        SqlError::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => Some("40001"),
        _ if is_schema_missing(&error) => Some("42P01"),
        _ if is_read_only(&error) => Some("25006"),
        _ => None,
    };
    insert_failed(state, error)
}
