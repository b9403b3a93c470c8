//! Writing in a diesel-async transaction on PostgreSQL: the answer is a future.

use diesel::QueryableByName;
use diesel::result::{DatabaseErrorKind, Error as SqlError};
use diesel::sql_types::{Array, BigInt, Binary, Nullable, Text, Uuid as SqlUuid};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use uuid::Uuid;

use super::diesel_error::{is_read_only, is_schema_missing};
use super::postgres::{Arrays, INSERT};
use super::{Batch, Written};
use crate::postgres_error::insert_failed;
use crate::{Error, Result};

answers_later!('c, insert: &'c mut AsyncPgConnection);

#[derive(QueryableByName)]
struct Told {
    #[diesel(sql_type = SqlUuid)]
    id: Uuid,
    #[diesel(sql_type = BigInt)]
    position: i64,
}

async fn insert(connection: &mut AsyncPgConnection, batch: &Batch) -> Result<Vec<Written>> {
    let arrays = Arrays::of(batch)?;
    let told: Vec<Told> = diesel::sql_query(batch.schema().put_into(INSERT))
        .bind::<Array<SqlUuid>, _>(&arrays.ids)
        .bind::<Array<Text>, _>(&arrays.types)
        .bind::<Array<Nullable<Text>>, _>(&arrays.aggregate_types)
        .bind::<Array<Nullable<Text>>, _>(&arrays.aggregate_ids)
        .bind::<Array<Nullable<Text>>, _>(&arrays.keys)
        .bind::<Array<Binary>, _>(&arrays.payloads)
        .bind::<Array<Nullable<Text>>, _>(&arrays.headers)
        .bind::<Array<BigInt>, _>(&arrays.times)
        .bind::<Array<Nullable<Text>>, _>(&arrays.topics)
        .bind::<Array<Nullable<BigInt>>, _>(&arrays.max_attempts)
        .bind::<Array<Nullable<BigInt>>, _>(&arrays.expires_at)
        .bind::<Array<Nullable<Text>>, _>(&arrays.actions)
        .bind::<Array<Nullable<Text>>, _>(&arrays.namespaces)
        .bind::<Array<Nullable<Text>>, _>(&arrays.producers)
        .get_results(connection)
        .await
        .map_err(error)?;
    arrays.written(told.into_iter().map(|row| (row.id, row.position)).collect())
}

/// diesel keeps the server's words and not its SQLSTATE; these are those of what its words or its kind tell.
fn error(error: SqlError) -> Error {
    let state = match &error {
        SqlError::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => Some("40001"),
        _ if is_schema_missing(&error) => Some("42P01"),
        _ if is_read_only(&error) => Some("25006"),
        _ => None,
    };
    insert_failed(state, error)
}
