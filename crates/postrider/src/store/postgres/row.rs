//! From a row of `events` to an [`Event`].
//!
//! The table refuses most of what could not be read here. A row that is damaged all the same, such as one with
//! an action that has no name, is [`Code::RowDamaged`]; the claim names it, and the relay parks it as dead, so
//! that it is seen and no other event waits for it.

use std::error::Error as StdError;
use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type, accepts};

use super::time::Time;
use crate::event::columns;
use crate::store::page_builder::Widths;
use crate::{Aggregate, Code, Error, Event, Position, Result, StoredEvent, Timestamp};

/// A text, cut off where a relay would no longer read it: one that is longer than the limit is named and not carried.
macro_rules! short {
    ($column:literal) => {
        concat!(
            "CASE WHEN octet_length(",
            $column,
            ") <= 4096 THEN ",
            $column,
            " ELSE left(",
            $column,
            ", 4097) END"
        )
    };
}
pub(super) use short;

/// The columns of a SELECT that [`event`] reads, in its order. Of payload, headers and action, what is larger than `$1` bytes
/// stays behind; its length says how much room it will need.
macro_rules! event_columns {
    () => {
        concat!(
            "position, id, ",
            crate::store::postgres::row::short!("type"),
            ", ",
            crate::store::postgres::row::short!("aggregate_type"),
            ", ",
            crate::store::postgres::row::short!("aggregate_id"),
            ", ",
            crate::store::postgres::row::short!("key"),
            ", CASE WHEN octet_length(payload) <= $1 THEN payload END, octet_length(payload),
             CASE WHEN octet_length(headers::text) <= $1 THEN headers END, time, ",
            crate::store::postgres::row::short!("topic"),
            ", max_attempts, expires_at, CASE WHEN octet_length(action::text) <= $1 THEN action END, ",
            crate::store::postgres::row::short!("namespace"),
            ", ",
            crate::store::postgres::row::short!("producer"),
            ", octet_length(headers::text), octet_length(action::text)"
        )
    };
}
pub(super) use event_columns;

/// A value, or the error of a row that is not as it should be.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|e| Error::new(Code::RowDamaged, "a column cannot be read").with_source(e))
}

/// A position.
pub(super) fn position(row: &Row, column: usize) -> Result<Position> {
    get(row, column).map(Position::new)
}

/// A count that fits where the table's CHECK says it does.
pub(super) fn count(row: &Row, column: usize) -> Result<u32> {
    let number: i64 = get(row, column)?;
    number.try_into().map_err(|_| Error::new(Code::RowDamaged, format!("{number} is not a valid count")))
}

/// Bytes of all its columns, those included that stayed behind.
pub(super) fn size_bytes(row: &Row) -> Result<usize> {
    let widths = widths(row)?;
    let texts: usize = widths.texts.iter().map(|(_, bytes)| bytes).sum();
    Ok(length(row, 7)? + widths.headers + widths.action + texts)
}

fn length(row: &Row, column: usize) -> Result<usize> {
    let bytes: Option<i32> = get(row, column)?;
    Ok(bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0))
}

fn widths(row: &Row) -> Result<Widths> {
    let texts = [
        ("type", 2),
        ("aggregate_type", 3),
        ("aggregate_id", 4),
        ("key", 5),
        ("topic", 10),
        ("namespace", 14),
        ("producer", 15),
    ];
    let text = |(name, column)| {
        let text: Option<&str> = get(row, column)?;
        Ok((name, text.map_or(0, str::len)))
    };
    let texts = texts.into_iter().map(text).collect::<Result<_>>()?;
    Ok(Widths { texts, headers: length(row, 16)?, action: length(row, 17)? })
}

/// The event of the row, and whether some of it stayed behind; see [`deferred`](super::deferred).
pub(super) fn event(row: &Row) -> Result<(StoredEvent, bool)> {
    let position = position(row, 0)?;
    match read(row) {
        Ok((event, left)) => Ok((StoredEvent { position, event: Arc::new(event) }, left)),
        Err(cause) => {
            Err(Error::new(Code::RowDamaged, format!("the event at position {position} is not readable"))
                .with_hint("repair or delete the row in the table events; the subscription then continues")
                .with_source(cause))
        }
    }
}

fn read(row: &Row) -> Result<(Event, bool)> {
    let widths = widths(row)?;
    widths.refuse()?;
    let aggregate = match (get(row, 3)?, get(row, 4)?) {
        (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
        _ => None,
    };
    let payload: Option<&[u8]> = get(row, 6)?;
    let json = |column| get::<Option<Json<'_>>>(row, column).map(|json| json.map(|json| json.0));
    let (headers, action) = (json(8)?, json(13)?);
    let is_bare =
        payload.is_none() || headers.is_none() && widths.headers > 0 || action.is_none() && widths.action > 0;
    let event = Event {
        id: get(row, 1)?,
        event_type: get(row, 2)?,
        aggregate,
        key: get(row, 5)?,
        payload: payload.map(Bytes::copy_from_slice).unwrap_or_default(),
        headers: headers.map(columns::headers_from_json).transpose()?.unwrap_or_default(),
        time: said(get::<Time>(row, 9)?.0, "its time")?,
        topic: get(row, 10)?,
        max_attempts: get::<Option<i64>>(row, 11)?.map(|_| count(row, 11)).transpose()?,
        // Never is what infinity means here.
        expires_at: get::<Option<Time>>(row, 12)?
            .filter(|time| !time.is_infinity())
            .map(|time| said(time.0, "the time of its expiry"))
            .transpose()?,
        action: action.map(columns::action_from_json).transpose()?,
        namespace: get(row, 14)?,
        producer: get(row, 15)?,
    };
    Ok((event, is_bare))
}

/// A time that every receiver can be told.
fn said(time: Timestamp, what: &str) -> Result<Timestamp> {
    if time.is_storable() {
        return Ok(time);
    }
    let what = format!("{what} is infinite or outside the years 1 to 9999");
    Err(Error::new(Code::RowDamaged, what))
}

/// A `json` column as the text it is.
pub(super) struct Json<'a>(pub(super) &'a str);

impl<'a> FromSql<'a> for Json<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> std::result::Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    accepts!(JSON);
}
