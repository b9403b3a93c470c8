//! Decodes a row, in the order of its columns.

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::row::get;
use super::super::time::Time;
use crate::Result;
use crate::store::row_state::read::{Body, RowState, about};

pub(super) fn state(row: &Row) -> Result<RowState> {
    let body = payload(row, 6)?;
    let headers: Option<&str> = get(row, 8)?;
    let length = match body {
        Some(body) => body.len(),
        None => usize::try_from(get::<Option<i64>>(row, 7)?.unwrap_or(0)).unwrap_or(0),
    };
    Ok(RowState {
        id: get::<&str>(row, 0)?.into(),
        attempts: get(row, 13)?,
        limit: u32::try_from(get::<i64>(row, 11)?).unwrap_or(1).max(1),
        is_due: get::<Option<bool>>(row, 14)?.unwrap_or(false),
        is_open: get::<Option<bool>>(row, 15)?.unwrap_or(false),
        bytes: length + headers.map_or(0, str::len),
        is_bare: body.is_none(),
    })
}

/// A payload: a text, or bytes as they are.
pub(super) fn payload(row: &Row, column: usize) -> Result<Option<&[u8]>> {
    match row.columns().get(column).map(|column| column.type_()) {
        Some(&Type::BYTEA) => get(row, column),
        _ => get::<Option<&str>>(row, column).map(|text| text.map(str::as_bytes)),
    }
}

pub(super) fn body(row: &Row) -> Result<Body> {
    Ok(Body {
        event_key: get(row, 1)?,
        event_type: get(row, 2)?,
        aggregate: about(get(row, 3)?, get(row, 4)?),
        key: get(row, 5)?,
        payload: Bytes::copy_from_slice(payload(row, 6)?.unwrap_or_default()),
        headers: get(row, 8)?,
        created: get::<Option<Time>>(row, 9)?.map(|time| time.0),
        read_at: if row.len() > 16 { Some(get::<Time>(row, 16)?.0) } else { None },
        topic: get(row, 10)?,
        producer: get(row, 12)?,
    })
}
