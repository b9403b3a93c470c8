//! From a row of `events` to an [`Event`].
//!
//! The table refuses most of what could not be read here. A row that is damaged all the same, such as one with
//! an action that has no name, is [`Code::RowDamaged`]; the claim names it, and the relay parks it as dead, so
//! that it is seen and no other event waits for it.

use std::sync::Arc;

use bytes::Bytes;
use mysql_async::prelude::FromValue;
use mysql_async::{Row, Value};
use uuid::Uuid;

use crate::event::columns;
use crate::store::page_builder::{DeferredColumns, Widths};
use crate::{Aggregate, Code, Error, Event, Position, Result, StoredEvent, Timestamp};

/// A time as microseconds since 1970, whatever the session's zone: `DATETIME` has none.
macro_rules! micros {
    ($time:literal) => {
        concat!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ", $time, ")")
    };
}
pub(super) use micros;

/// The columns of a SELECT that [`event`] reads, in its order. The first three parameters: a payload, headers and an action
/// larger than that many bytes stay behind; their lengths say how much room they will need. Times are taken as they are: a
/// server that counts microseconds for every row needs half as long again for a page.
macro_rules! event_columns {
    () => {
        "position, id, type, aggregate_type, aggregate_id, `key`,
         CASE WHEN LENGTH(payload) <= ? THEN payload END, LENGTH(payload),
         CASE WHEN LENGTH(headers) <= ? THEN headers END, time, topic, max_attempts,
         expires_at, CASE WHEN LENGTH(action) <= ? THEN action END, namespace, producer,
         LENGTH(headers), LENGTH(action)"
    };
}
pub(super) use event_columns;

/// A value, or the error of a row that is not as it should be.
pub(super) fn get<T: FromValue>(row: &Row, column: usize) -> Result<T> {
    match row.get_opt(column) {
        Some(Ok(value)) => Ok(value),
        _ => Err(unreadable(column)),
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
    let Some(Value::Bytes(bytes)) = row.as_ref(column) else { return Err(unreadable(column)) };
    Uuid::from_slice(bytes).map_err(|e| Error::new(Code::RowDamaged, "an id is not a UUID").with_source(e))
}

/// A UUID that may be NULL.
pub(super) fn uuid_opt(row: &Row, column: usize) -> Result<Option<Uuid>> {
    if row.as_ref(column) == Some(&Value::NULL) { Ok(None) } else { uuid(row, column).map(Some) }
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
    Ok(get_opt::<i64>(row, column)?.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0))
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
    let text = |(name, column)| match row.as_ref(column) {
        Some(Value::Bytes(bytes)) => (name, bytes.len()),
        _ => (name, 0),
    };
    let texts = texts.into_iter().map(text).collect();
    Ok(Widths { texts, headers: length(row, 16)?, action: length(row, 17)? })
}

/// The event of the row, and whether some of it stayed behind; see [`deferred`].
pub(super) fn event(row: Row) -> Result<(StoredEvent, bool)> {
    let position = position(&row, 0)?;
    match read(row) {
        Ok((event, left)) => Ok((StoredEvent { position, event: Arc::new(event) }, left)),
        Err(cause) => {
            Err(Error::new(Code::RowDamaged, format!("the event at position {position} is not readable"))
                .with_hint("repair or delete the row in the table events; the subscription then continues")
                .with_source(cause))
        }
    }
}

/// Texts and payload move out of the row; nothing is copied.
fn read(mut row: Row) -> Result<(Event, bool)> {
    let widths = widths(&row)?;
    widths.refuse()?;
    let aggregate = match (text(&mut row, 3)?, text(&mut row, 4)?) {
        (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
        _ => None,
    };
    let payload = bytes(&mut row, 6)?;
    let headers = text(&mut row, 8)?;
    let action = text(&mut row, 13)?;
    let is_bare =
        payload.is_none() || headers.is_none() && widths.headers > 0 || action.is_none() && widths.action > 0;
    let event = Event {
        id: uuid(&row, 1)?,
        event_type: text(&mut row, 2)?.ok_or_else(|| unreadable(2))?,
        aggregate,
        key: text(&mut row, 5)?,
        payload: payload.map(Bytes::from).unwrap_or_default(),
        headers: headers.map(|text| columns::headers_from_json(&text)).transpose()?.unwrap_or_default(),
        time: date(&row, 9)?.ok_or_else(|| unreadable(9))?,
        topic: text(&mut row, 10)?,
        max_attempts: get_opt::<i64>(&row, 11)?.map(|_| count(&row, 11)).transpose()?,
        expires_at: date(&row, 12)?,
        action: action.map(|text| columns::action_from_json(&text)).transpose()?,
        namespace: text(&mut row, 14)?,
        producer: text(&mut row, 15)?,
    };
    Ok((event, is_bare))
}

/// The columns `payload, headers, action` from the third on.
pub(super) fn deferred(mut row: Row) -> Result<DeferredColumns> {
    let (headers, action) = (text(&mut row, 3)?, text(&mut row, 4)?);
    Ok(DeferredColumns {
        payload: bytes(&mut row, 2)?.map(Bytes::from).ok_or_else(|| unreadable(2))?,
        headers: headers.map(|text| columns::headers_from_json(&text)).transpose()?.unwrap_or_default(),
        action: action.map(|text| columns::action_from_json(&text)).transpose()?,
    })
}

/// Bytes that are taken out of the row.
pub(super) fn bytes(row: &mut Row, column: usize) -> Result<Option<Vec<u8>>> {
    match row.take(column) {
        Some(Value::Bytes(bytes)) => Ok(Some(bytes)),
        Some(Value::NULL) => Ok(None),
        _ => Err(unreadable(column)),
    }
}

fn text(row: &mut Row, column: usize) -> Result<Option<String>> {
    bytes(row, column)?.map(|bytes| String::from_utf8(bytes).map_err(|_| unreadable(column))).transpose()
}

fn unreadable(column: usize) -> Error {
    Error::new(Code::RowDamaged, format!("column {column} of a result is not readable"))
}

/// A `DATETIME` of a prepared statement, in UTC.
fn date(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    match row.as_ref(column) {
        Some(Value::NULL) => Ok(None),
        Some(&Value::Date(year, month, day, hour, minute, second, micros)) => {
            let days = days_since_1970(year, month, day).ok_or_else(|| unreadable(column))?;
            let hours = days * 24 + i64::from(hour);
            let seconds = (hours * 60 + i64::from(minute)) * 60 + i64::from(second);
            Ok(Some(Timestamp::from_micros(seconds * 1_000_000 + i64::from(micros))))
        }
        _ => Err(unreadable(column)),
    }
}

/// Days of the calendar we all use, also before it began. `None` for the dates with a zero in them that a server
/// may have been told to take.
fn days_since_1970(year: u16, month: u8, day: u8) -> Option<i64> {
    if !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    // Counted from a first of March, so that the day that is not always there comes last.
    let months = (i64::from(month) + 9) % 12;
    let year = i64::from(year) - i64::from(month <= 2);
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * months + 2) / 5 + i64::from(day) - 1;
    Some(year * 365 + leap_days + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_by_the_calendar() {
        let first = jiff::civil::date(1, 1, 1);
        let mut days = days_since_1970(1, 1, 1);
        assert_eq!(days_since_1970(1970, 1, 1), Some(0));
        for date in first.series(jiff::Span::new().days(1)) {
            let (year, month, day) =
                (date.year().unsigned_abs(), date.month().unsigned_abs(), date.day().unsigned_abs());
            assert_eq!(days_since_1970(year, month, day), days, "{date}");
            days = days.map(|days| days + 1);
        }
    }

    #[test]
    fn a_date_with_a_zero_in_it_is_none() {
        assert_eq!(days_since_1970(0, 0, 0), None);
        assert_eq!(days_since_1970(2026, 0, 1), None);
        assert_eq!(days_since_1970(2026, 1, 0), None);
    }
}
