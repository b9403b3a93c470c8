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
use crate::{Aggregate, Code, Error, Event, Position, Result, StoredEvent, Timestamp};

/// The columns of a SELECT that [`event`] reads, in its order. A payload larger than `$1` bytes stays behind;
/// its length says how much room it will need.
macro_rules! event_columns {
    () => {
        "position, id, type, aggregate_type, aggregate_id, key,
         CASE WHEN octet_length(payload) <= $1 THEN payload END, octet_length(payload),
         headers, time, topic, max_attempts, expires_at, action, namespace, producer"
    };
}
pub(super) use event_columns;

/// A value, or the error of a row that is not as it should be.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|e| Error::new(Code::RowDamaged, "a column cannot be read").source(e))
}

/// A position.
pub(super) fn position(row: &Row, column: usize) -> Result<Position> {
    get(row, column).map(Position::new)
}

/// A count that fits where the table's CHECK says it does.
pub(super) fn count(row: &Row, column: usize) -> Result<u32> {
    let number: i64 = get(row, column)?;
    number.try_into().map_err(|_| Error::new(Code::RowDamaged, format!("{number} is no count")))
}

/// How long the payload of an event is.
pub(super) fn payload_len(row: &Row) -> Result<usize> {
    get::<i32>(row, 7).map(|bytes| usize::try_from(bytes).unwrap_or(0))
}

/// The event of the row, and whether its payload stayed behind.
pub(super) fn event(row: &Row) -> Result<(StoredEvent, bool)> {
    let position = position(row, 0)?;
    match read(row) {
        Ok((event, left)) => Ok((StoredEvent { position, event: Arc::new(event) }, left)),
        Err(cause) => {
            Err(Error::new(Code::RowDamaged, format!("the event at position {position} cannot be read"))
                .hint("repair or delete the row in the table events; the subscription goes on from there")
                .source(cause))
        }
    }
}

fn read(row: &Row) -> Result<(Event, bool)> {
    let aggregate = match (get(row, 3)?, get(row, 4)?) {
        (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
        _ => None,
    };
    let payload: Option<&[u8]> = get(row, 6)?;
    let json = |column| get::<Option<Json<'_>>>(row, column).map(|json| json.map(|json| json.0));
    let event = Event {
        id: get(row, 1)?,
        event_type: get(row, 2)?,
        aggregate,
        key: get(row, 5)?,
        payload: payload.map(Bytes::copy_from_slice).unwrap_or_default(),
        headers: json(8)?.map(columns::headers_from_json).transpose()?.unwrap_or_default(),
        time: said(get::<Time>(row, 9)?.0, "its time")?,
        topic: get(row, 10)?,
        max_attempts: get::<Option<i64>>(row, 11)?.map(|_| count(row, 11)).transpose()?,
        // Never is what infinity means here.
        expires_at: get::<Option<Time>>(row, 12)?
            .filter(|time| !time.is_infinity())
            .map(|time| said(time.0, "the time of its expiry"))
            .transpose()?,
        action: json(13)?.map(columns::action_from_json).transpose()?,
        namespace: get(row, 14)?,
        producer: get(row, 15)?,
    };
    Ok((event, payload.is_none()))
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
struct Json<'a>(&'a str);

impl<'a> FromSql<'a> for Json<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> std::result::Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    accepts!(JSON);
}
