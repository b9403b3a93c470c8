//! Writing in a tokio-postgres transaction: the answer is a future, after one round trip.

use ::tokio_postgres::types::{ToSql, Type};
use ::tokio_postgres::{Client, Error as SqlError, Row};
use uuid::Uuid;

use super::postgres::{Arrays, INSERT, INSERT_ONE};
use super::rows_postgres::RowColumns;
use super::{Batch, Written};
use crate::layout::RowTable;
use crate::postgres_error::insert_failed;
use crate::{Error, Result};

answers_later!('c, insert: &'c Client);
answers_later!('c, insert_in: &'c ::tokio_postgres::Transaction<'_>);

async fn insert_in(tx: &::tokio_postgres::Transaction<'_>, batch: &Batch) -> Result<Vec<Written>> {
    insert(tx.client(), batch).await
}

async fn insert(client: &Client, batch: &Batch) -> Result<Vec<Written>> {
    if let Some(table) = batch.rows() {
        return insert_into_layout(client, table, batch).await;
    }
    let arrays = Arrays::of(batch)?;
    let rows = if batch.events().len() == 1 {
        insert_one(client, &batch.schema().put_into(INSERT_ONE), &arrays).await
    } else {
        insert_rows(client, &batch.schema().put_into(INSERT), &arrays).await
    };
    let rows = rows.map_err(error)?;
    let told = rows.iter().map(told).collect::<Result<_, SqlError>>().map_err(error)?;
    arrays.written(told)
}

/// Into a table of another layout.
async fn insert_into_layout(client: &Client, table: &RowTable, batch: &Batch) -> Result<Vec<Written>> {
    let columns = RowColumns::of(batch)?;
    let params: Vec<(&(dyn ToSql + Sync), Type)> =
        columns.all().into_iter().map(|column| (column as _, Type::TEXT_ARRAY)).collect();
    let rows = client.query_typed(&columns.statement(table), &params).await.map_err(error)?;
    let told = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
    columns.written(batch, told.collect::<Result<_, SqlError>>().map_err(error)?)
}

/// With its types given, the statement need not be prepared first: it is sent and answered at once, and works
/// behind a pooler that knows no prepared statements.
async fn insert_rows(client: &Client, statement: &str, arrays: &Arrays<'_>) -> Result<Vec<Row>, SqlError> {
    client
        .query_typed(
            statement,
            &[
                (&arrays.ids, Type::UUID_ARRAY),
                (&arrays.types, Type::TEXT_ARRAY),
                (&arrays.aggregate_types, Type::TEXT_ARRAY),
                (&arrays.aggregate_ids, Type::TEXT_ARRAY),
                (&arrays.keys, Type::TEXT_ARRAY),
                (&arrays.payloads, Type::BYTEA_ARRAY),
                (&arrays.headers, Type::TEXT_ARRAY),
                (&arrays.times, Type::INT8_ARRAY),
                (&arrays.topics, Type::TEXT_ARRAY),
                (&arrays.max_attempts, Type::INT8_ARRAY),
                (&arrays.expires_at, Type::INT8_ARRAY),
                (&arrays.actions, Type::TEXT_ARRAY),
                (&arrays.namespaces, Type::TEXT_ARRAY),
                (&arrays.producers, Type::TEXT_ARRAY),
            ],
        )
        .await
}

/// The same for one event.
async fn insert_one(client: &Client, statement: &str, one: &Arrays<'_>) -> Result<Vec<Row>, SqlError> {
    client
        .query_typed(
            statement,
            &[
                (&one.ids[0], Type::UUID),
                (&one.types[0], Type::TEXT),
                (&one.aggregate_types[0], Type::TEXT),
                (&one.aggregate_ids[0], Type::TEXT),
                (&one.keys[0], Type::TEXT),
                (&one.payloads[0], Type::BYTEA),
                (&one.headers[0], Type::TEXT),
                (&one.times[0], Type::INT8),
                (&one.topics[0], Type::TEXT),
                (&one.max_attempts[0], Type::INT8),
                (&one.expires_at[0], Type::INT8),
                (&one.actions[0], Type::TEXT),
                (&one.namespaces[0], Type::TEXT),
                (&one.producers[0], Type::TEXT),
            ],
        )
        .await
}

fn told(row: &Row) -> Result<(Uuid, i64), SqlError> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

fn error(error: SqlError) -> Error {
    let state = error.code().map(|state| state.code().to_owned());
    insert_failed(state.as_deref(), error)
}
