//! Columns of an event that are not read together with its row: a large payload, headers, action.
//!
//! A payload is read in slices, one query each. A slow network therefore only costs time, because each slice shows
//! that the connection is alive, and the server holds no snapshot for longer than one slice takes. If the server
//! cannot read a part of an event, only that event is damaged; the others are read.

use bytes::{Bytes, BytesMut};
use tokio_postgres::Row;
use uuid::Uuid;

use super::page::is_row_damaged;
use super::row::{Json, get};
use super::session::{Access, Session};
use crate::event::columns;
use crate::store::page_builder::DeferredColumns;
use crate::{Code, Error, Result};

/// Bytes of a payload in one answer.
const SLICE_BYTES: i32 = 1024 * 1024;

/// Selects by id as well, so that an event never gets the payload of another. Index: the primary key (position).
const FIRST: &str = "
    SELECT substring(payload, 1, $3), headers, action
    FROM unnest($1::bigint[], $2::uuid[]) WITH ORDINALITY AS asked (position, id, ordinal)
    JOIN ONLY {schema}.events USING (position, id)
    ORDER BY ordinal";

/// Index: the primary key (position).
const NEXT: &str =
    "SELECT substring(payload, $3, $4) FROM ONLY {schema}.events WHERE position = $1 AND id = $2";

/// The columns of events by position and id, in this order, one result per event. An event that cannot be read does not
/// fail the others.
pub(super) async fn read(
    session: &Session,
    positions: &[i64],
    ids: &[Uuid],
) -> Result<Vec<Result<DeferredColumns>>> {
    let mut all = Vec::with_capacity(positions.len());
    let rows = first(session, positions, ids).await;
    if is_row_damaged(&rows) {
        // The error does not name the event, so each is read alone.
        for (position, id) in positions.iter().zip(ids) {
            let one = async {
                let rows = first(session, &[*position], &[*id]).await?;
                whole(rows.first().ok_or_else(deleted)?, session, *position, *id).await
            };
            all.push(own_error(one.await)?);
        }
        return Ok(all);
    }
    for ((row, position), id) in rows?.iter().zip(positions).zip(ids) {
        all.push(own_error(whole(row, session, *position, *id).await)?);
    }
    Ok(all)
}

async fn first(session: &Session, positions: &[i64], ids: &[Uuid]) -> Result<Vec<Row>> {
    let (positions, ids) = (positions.to_vec(), ids.to_vec());
    let rows = session.autocommit(Access::Reads, FIRST, &[&positions, &ids, &SLICE_BYTES]).await?;
    if rows.len() == positions.len() { Ok(rows) } else { Err(deleted()) }
}

/// The columns of [`FIRST`], with the whole of the payload.
async fn whole(row: &Row, session: &Session, position: i64, id: Uuid) -> Result<DeferredColumns> {
    let json = |column| get::<Option<Json<'_>>>(row, column).map(|json| json.map(|json| json.0));
    let headers = json(1)?.map(columns::headers_from_json).transpose()?.unwrap_or_default();
    let action = json(2)?.map(columns::action_from_json).transpose()?;
    let slice: &[u8] = get(row, 0)?;
    let is_full = |slice: &[u8]| slice.len() >= SLICE_BYTES.unsigned_abs() as usize;
    if !is_full(slice) {
        return Ok(DeferredColumns { payload: Bytes::copy_from_slice(slice), headers, action });
    }
    let mut payload = BytesMut::from(slice);
    loop {
        let from = i32::try_from(payload.len() + 1).unwrap_or(i32::MAX);
        let rows = session.autocommit(Access::Reads, NEXT, &[&position, &id, &from, &SLICE_BYTES]).await?;
        let slice: &[u8] = get(rows.first().ok_or_else(deleted)?, 0)?;
        payload.extend_from_slice(slice);
        if !is_full(slice) {
            return Ok(DeferredColumns { payload: payload.freeze(), headers, action });
        }
    }
}

/// Separates the error of one event from an error of the connection.
fn own_error(columns: Result<DeferredColumns>) -> Result<Result<DeferredColumns>> {
    if is_row_damaged(&columns) { Ok(columns) } else { columns.map(Ok) }
}

fn deleted() -> Error {
    Error::new(Code::StoreBusy, "an event was deleted while it was read")
}
