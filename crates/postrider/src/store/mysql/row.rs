//! From a row of `events` to an [`Event`].
//!
//! The table's types and CHECKs exclude most rows that are not readable. A row that is damaged nevertheless, for
//! example with an action that has no name, is [`Code::RowDamaged`]: the claim reports it, and the relay parks it as
//! dead, so that operators see it and no other event waits for it.

use std::sync::Arc;

use bytes::Bytes;
use mysql_async::prelude::FromValue;
use mysql_async::{Row, Value};
use uuid::Uuid;

use crate::event::columns;
use crate::store::event_row::{self, EventValues, Widths, text_columns, text_list, unreadable_event};
use crate::store::page_builder::DeferredColumns;
use crate::store::result_row::ResultRow;
use crate::{Code, Error, Event, Position, Result, StoredEvent, Timestamp};

/// A time as microseconds since 1970. `DATETIME` has no time zone, so the session's does not matter.
macro_rules! micros {
    ($time:literal) => {
        concat!("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ", $time, ")")
    };
}
pub(super) use micros;

/// Index of the first [text column](text_columns) in the SELECT.
const FIRST_TEXT: usize = 11;

/// A SELECT with its `{columns}` put in: those that [`event`] reads. The first three parameters limit the bytes of
/// payload, headers and action: a larger value is not sent, and the length after it shows that it was left out. Times
/// are read as `DATETIME`: if the server converted them to microseconds, a page would take half as long again.
pub(super) fn with_columns(select: &str) -> String {
    let columns = format!(
        "position, id,
         CASE WHEN LENGTH(payload) <= ? THEN payload END, LENGTH(payload),
         CASE WHEN LENGTH(headers) <= ? THEN headers END, LENGTH(headers),
         CASE WHEN LENGTH(action) <= ? THEN action END, LENGTH(action),
         time, max_attempts, expires_at, {}",
        text_list(|name| format!("`{name}`"))
    );
    select.replace("{columns}", &columns)
}

/// A value, or the error of a damaged row.
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

/// A time that was selected as [`micros!`].
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

/// An id as text: the column contains numbers or texts.
pub(super) fn text_id(row: &Row, column: usize) -> Result<String> {
    match row.as_ref(column) {
        Some(Value::Bytes(_)) => get::<String>(row, column),
        _ => get::<i64>(row, column).map(|id| id.to_string()),
    }
}

/// The sizes of all columns.
pub(super) fn widths(row: &Row) -> Result<Widths> {
    let length = |column| -> Result<usize> {
        Ok(get_opt::<i64>(row, column)?.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0))
    };
    let mut widths = Widths::new(length(3)?, length(5)?, length(7)?);
    for (column, name) in (FIRST_TEXT..).zip(text_columns()) {
        if let Some(Value::Bytes(bytes)) = row.as_ref(column) {
            widths.add_text(name, bytes.len());
        }
    }
    Ok(widths)
}

/// The event of the row, and whether some of its columns are [deferred].
pub(super) fn event(row: Row, widths: &Widths) -> Result<(StoredEvent, bool)> {
    let position = position(&row, 0)?;
    let (event, is_deferred) =
        read(row, widths).map_err(|cause| unreadable_event(position, "the table events", cause))?;
    Ok((StoredEvent { position, event: Arc::new(event) }, is_deferred))
}

/// Moves texts and payload out of the row, without a copy.
fn read(mut row: Row, widths: &Widths) -> Result<(Event, bool)> {
    let columns = EventValues {
        id: uuid(&row, 1)?,
        payload: bytes(&mut row, 2)?.map(Bytes::from),
        headers: text(&mut row, 4)?,
        action: text(&mut row, 6)?,
        time: date(&row, 8)?.ok_or_else(|| unreadable(8))?,
        max_attempts: get_opt::<i64>(&row, 9)?.map(event_row::count).transpose()?,
        expires_at: date(&row, 10)?,
    };
    columns.into_event(widths, |index| text(&mut row, FIRST_TEXT + index))
}

/// The deferred columns of a row: `payload, headers, action` after position and id.
pub(super) fn deferred(mut row: Row) -> Result<DeferredColumns> {
    let (headers, action) = (text(&mut row, 3)?, text(&mut row, 4)?);
    Ok(DeferredColumns {
        payload: bytes(&mut row, 2)?.map(Bytes::from).ok_or_else(|| unreadable(2))?,
        headers: headers.map(|text| columns::headers_from_json(&text)).transpose()?.unwrap_or_default(),
        action: action.map(|text| columns::action_from_json(&text)).transpose()?,
    })
}

/// Moves bytes out of the row.
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

/// A time that was selected as [`micros!`], or as a `DATETIME` of a prepared statement. `None` also for dates with a zero.
pub(super) fn moment(row: &Row, column: usize) -> Result<Option<Timestamp>> {
    match row.as_ref(column) {
        Some(Value::Date(..)) => Ok(date(row, column).unwrap_or_default()),
        _ => Ok(get_opt::<i64>(row, column)?.map(Timestamp::from_micros)),
    }
}

/// Days in the proleptic Gregorian calendar. `None` for dates with a zero, which a server may be configured to accept.
fn days_since_1970(year: u16, month: u8, day: u8) -> Option<i64> {
    if !(1..=12).contains(&month) || day == 0 {
        return None;
    }
    // The year is counted from March, so that the leap day is its last.
    let months = (i64::from(month) + 9) % 12;
    let year = i64::from(year) - i64::from(month <= 2);
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * months + 2) / 5 + i64::from(day) - 1;
    Some(year * 365 + leap_days + day_of_year - 719_468)
}

impl ResultRow for Row {
    fn text(&self, column: usize) -> Result<Option<String>> {
        get(self, column)
    }

    fn number(&self, column: usize) -> Result<Option<i64>> {
        get(self, column)
    }

    fn flag(&self, column: usize) -> Result<Option<bool>> {
        Ok(get_opt::<i64>(self, column)?.map(|number| number == 1))
    }

    fn time(&self, column: usize) -> Result<Option<Timestamp>> {
        Ok(get_opt::<i64>(self, column)?.map(Timestamp::from_micros))
    }

    fn row_id(&self, column: usize) -> Result<String> {
        text_id(self, column)
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>> {
        uuid_opt(self, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_in_the_calendar() {
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
    fn a_date_with_a_zero_has_no_day_number() {
        assert_eq!(days_since_1970(0, 0, 0), None);
        assert_eq!(days_since_1970(2026, 0, 1), None);
        assert_eq!(days_since_1970(2026, 1, 0), None);
    }
}
