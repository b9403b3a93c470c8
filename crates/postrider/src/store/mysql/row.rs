//! From a row of `events` to an [`Event`].
//!
//! The table refuses most of what could not be read here. A row that is damaged all the same, such as one with
//! an action that has no name, is [`Code::RowDamaged`]; the claim names it, and the relay parks it as dead, so
//! that it is seen and no other event waits for it.

use std::sync::Arc;

use bytes::Bytes;
use mysql_async::Row;
use mysql_async::prelude::FromValue;
use uuid::Uuid;

use crate::event::columns;
use crate::{Aggregate, Code, Error, Event, Position, Result, StoredEvent, Timestamp};

/// A time as microseconds since 1970, whatever the session's zone: `DATETIME` has none.
macro_rules! micros {
    ($time:literal) => {
        concat!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ", $time, ")")
    };
}
pub(super) use micros;

/// The columns of a SELECT that [`event`] reads, in its order. A payload larger than `{payload_max}` bytes stays
/// behind; its length says how much room it will need.
macro_rules! event_columns {
    () => {
        concat!(
            "position, id, type, aggregate_type, aggregate_id, `key`,
             CASE WHEN LENGTH(payload) <= {payload_max} THEN payload END, LENGTH(payload), headers, ",
            $crate::store::mysql::row::micros!("time"),
            ", topic, max_attempts, ",
            $crate::store::mysql::row::micros!("expires_at"),
            ", action, namespace, producer"
        )
    };
}
pub(super) use event_columns;

/// A value, or the error of a row that is not as it should be.
pub(super) fn get<T: FromValue>(row: &Row, column: usize) -> Result<T> {
    match row.get_opt(column) {
        Some(Ok(value)) => Ok(value),
        _ => Err(Error::new(Code::RowDamaged, format!("column {column} of an answer cannot be read"))),
    }
}

/// A value that may be NULL.
pub(super) fn get_opt<T: FromValue>(row: &Row, column: usize) -> Result<Option<T>>
where
    Option<T>: FromValue,
{
    get(row, column)
}

/// A position.
pub(super) fn position(row: &Row, column: usize) -> Result<Position> {
    get(row, column).map(Position::new)
}

/// A time that was asked for as [`micros!`].
pub(super) fn time(row: &Row, column: usize) -> Result<Timestamp> {
    get(row, column).map(Timestamp::from_micros)
}

/// A UUID of 16 bytes.
pub(super) fn uuid(row: &Row, column: usize) -> Result<Uuid> {
    let bytes: Vec<u8> = get(row, column)?;
    Uuid::from_slice(&bytes).map_err(|e| Error::new(Code::RowDamaged, "an id is no UUID").source(e))
}

/// A count that fits where the table's CHECK says it does.
pub(super) fn count(row: &Row, column: usize) -> Result<u32> {
    let number: i64 = get(row, column)?;
    number.try_into().map_err(|_| Error::new(Code::RowDamaged, format!("{number} is no count")))
}

/// How long the payload of an event is.
pub(super) fn payload_len(row: &Row) -> Result<usize> {
    get::<i64>(row, 7).map(|bytes| usize::try_from(bytes).unwrap_or(0))
}

/// The event of the row, and whether its payload stayed behind.
pub(super) fn event(row: Row) -> Result<(StoredEvent, bool)> {
    let position = position(&row, 0)?;
    match read(row) {
        Ok((event, left)) => Ok((StoredEvent { position, event: Arc::new(event) }, left)),
        Err(cause) => {
            Err(Error::new(Code::RowDamaged, format!("the event at position {position} cannot be read"))
                .hint("repair or delete the row in the table events; the subscription goes on from there")
                .source(cause))
        }
    }
}

fn read(mut row: Row) -> Result<(Event, bool)> {
    let aggregate = match (get_opt(&row, 3)?, get_opt(&row, 4)?) {
        (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
        _ => None,
    };
    // The bytes move; nothing is copied.
    let payload: Option<Vec<u8>> = match row.take_opt(6) {
        Some(Ok(payload)) => payload,
        _ => return Err(Error::new(Code::RowDamaged, "the payload cannot be read")),
    };
    let json = |column| get_opt::<String>(&row, column);
    let event = Event {
        id: uuid(&row, 1)?,
        event_type: get(&row, 2)?,
        aggregate,
        key: get(&row, 5)?,
        headers: json(8)?.map(|text| columns::headers_from_json(&text)).transpose()?.unwrap_or_default(),
        time: time(&row, 9)?,
        topic: get(&row, 10)?,
        max_attempts: get_opt::<i64>(&row, 11)?.map(|_| count(&row, 11)).transpose()?,
        expires_at: get_opt::<i64>(&row, 12)?.map(Timestamp::from_micros),
        action: json(13)?.map(|text| columns::action_from_json(&text)).transpose()?,
        namespace: get(&row, 14)?,
        producer: get(&row, 15)?,
        payload: Bytes::new(),
    };
    let is_bare = payload.is_none();
    Ok((Event { payload: payload.map(Bytes::from).unwrap_or_default(), ..event }, is_bare))
}
