//! From a row of `postrider_events` to an [`Event`].
//!
//! The table refuses most of what could not be read here: STRICT types and CHECKs keep ids, headers and
//! payloads in shape. A row that is damaged all the same is [`Code::RowDamaged`]; the claim names it, and the
//! relay parks it as dead, so that it is seen and no other event waits for it.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use uuid::Uuid;

use super::failure::Attempt;
use crate::event::columns;
use crate::store::page_builder::Widths;
use crate::{Aggregate, Code, Error, Event, Position, StoredEvent, Timestamp};

/// The columns of a SELECT that [`event`] reads, in its order.
macro_rules! event_columns {
    () => {
        "position, id, type, aggregate_type, aggregate_id, key, payload, headers, time, topic,
         max_attempts, expires_at, action, namespace, producer"
    };
}
pub(super) use event_columns;

/// Where the row stands.
pub(super) fn position(row: &Row<'_>) -> Attempt<Position> {
    Ok(Position::new(row.get(0)?))
}

/// Bytes of all its columns.
pub(super) fn size_bytes(row: &Row<'_>) -> Attempt<usize> {
    let widths = widths(row)?;
    let texts: usize = widths.texts.iter().map(|(_, bytes)| bytes).sum();
    Ok(length(row, 6)? + widths.headers + widths.action + texts)
}

fn length(row: &Row<'_>, column: usize) -> Attempt<usize> {
    match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes.len()),
        _ => Ok(0),
    }
}

fn widths(row: &Row<'_>) -> Attempt<Widths> {
    let texts = [
        ("type", 2),
        ("aggregate_type", 3),
        ("aggregate_id", 4),
        ("key", 5),
        ("topic", 9),
        ("namespace", 13),
        ("producer", 14),
    ];
    let texts = texts.into_iter().map(|(name, column)| Ok((name, length(row, column)?)));
    let texts = texts.collect::<Attempt<_>>()?;
    Ok(Widths { texts, headers: length(row, 7)?, action: length(row, 12)? })
}

/// The event of the row.
pub(super) fn event(row: &Row<'_>) -> Attempt<StoredEvent> {
    let position = position(row)?;
    match read(row) {
        Ok(event) => Ok(StoredEvent { position, event: Arc::new(event) }),
        Err(cause) => {
            Err(Error::new(Code::RowDamaged, format!("the event at position {position} is not readable"))
                .with_hint("repair or delete the row in postrider_events; the subscription then continues")
                .with_source(Error::from(cause))
                .into())
        }
    }
}

fn read(row: &Row<'_>) -> Attempt<Event> {
    widths(row)?.refuse()?;
    let aggregate = match (row.get(3)?, row.get(4)?) {
        (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
        _ => None,
    };
    Ok(Event {
        id: uuid(row.get_ref(1)?)?,
        event_type: row.get(2)?,
        aggregate,
        key: row.get(5)?,
        payload: bytes(row.get_ref(6)?)?,
        headers: text(row, 7)?.map(columns::headers_from_json).transpose()?.unwrap_or_default(),
        time: Timestamp::from_micros(row.get(8)?),
        topic: row.get(9)?,
        max_attempts: row.get(10)?,
        expires_at: row.get::<_, Option<i64>>(11)?.map(Timestamp::from_micros),
        action: text(row, 12)?.map(columns::action_from_json).transpose()?,
        namespace: row.get(13)?,
        producer: row.get(14)?,
    })
}

/// A text or NULL, borrowed.
fn text<'r>(row: &'r Row<'_>, column: usize) -> Attempt<Option<&'r str>> {
    let text = row.get_ref(column)?.as_str_or_null();
    text.map_err(|e| Error::new(Code::RowDamaged, "a column is not text").with_source(e).into())
}

/// An id, as text or as 16 bytes.
pub(super) fn uuid(value: ValueRef<'_>) -> Attempt<Uuid> {
    let id = match value {
        ValueRef::Text(text) => Uuid::try_parse_ascii(text).ok(),
        ValueRef::Blob(bytes) => Uuid::from_slice(bytes).ok(),
        _ => None,
    };
    id.ok_or_else(|| Error::new(Code::RowDamaged, "its id is not a UUID").into())
}

fn bytes(value: ValueRef<'_>) -> Attempt<Bytes> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Bytes::copy_from_slice(bytes)),
        _ => Err(Error::new(Code::RowDamaged, "its payload is neither text nor bytes").into()),
    }
}
