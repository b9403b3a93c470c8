//! From a row of `events` to an [`Event`].
//!
//! The table's types and CHECKs exclude most rows that are not readable. A row that is damaged nevertheless, for
//! example with an action that has no name, is [`Code::RowDamaged`]: the claim reports it, and the relay parks it as
//! dead, so that operators see it and no other event waits for it.

use std::error::Error as StdError;
use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type, accepts};
use uuid::Uuid;

use super::time::Time;
use crate::store::event_row::{self, EventValues, Widths, text_columns, text_list, unreadable_event};
use crate::store::result_row::ResultRow;
use crate::{Code, Error, Event, Limits, Position, Result, StoredEvent, Timestamp};

/// Index of the first [text column](text_columns) in the SELECT.
const FIRST_TEXT: usize = 11;

/// A SELECT with its `{columns}` put in: those that [`event`] reads. Of payload, headers and action, only values of up
/// to `$1` bytes are sent; the length after each shows whether the value was left out.
pub(super) fn with_columns(select: &str) -> String {
    // A text that is longer than a relay reads is cut off: the row is reported as damaged, and the rest is not sent.
    let max = Limits::READ_TEXT_BYTES_MAX;
    let text = |name: &str| {
        format!("CASE WHEN octet_length({name}) <= {max} THEN {name} ELSE left({name}, {}) END", max + 1)
    };
    let columns = format!(
        "position, id,
         CASE WHEN octet_length(payload) <= $1 THEN payload END, octet_length(payload),
         CASE WHEN octet_length(headers::text) <= $1 THEN headers END, octet_length(headers::text),
         CASE WHEN octet_length(action::text) <= $1 THEN action END, octet_length(action::text),
         time, max_attempts, expires_at, {}",
        text_list(text)
    );
    select.replace("{columns}", &columns)
}

/// A value, or the error of a damaged row.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T> {
    row.try_get(column).map_err(|e| Error::new(Code::RowDamaged, "a column cannot be read").with_source(e))
}

/// A position.
pub(super) fn position(row: &Row, column: usize) -> Result<Position> {
    get(row, column).map(Position::new)
}

/// The sizes of all columns.
pub(super) fn widths(row: &Row) -> Result<Widths> {
    let length = |column| -> Result<usize> {
        let bytes: Option<i32> = get(row, column)?;
        Ok(bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0))
    };
    let mut widths = Widths::new(length(3)?, length(5)?, length(7)?);
    for (column, name) in (FIRST_TEXT..).zip(text_columns()) {
        let text: Option<TextWidth> = get(row, column)?;
        widths.add_text(name, text.map_or(0, |width| width.0));
    }
    Ok(widths)
}

/// The event of the row, and whether some of its columns are [deferred](super::deferred).
pub(super) fn event(row: &Row, widths: &Widths) -> Result<(StoredEvent, bool)> {
    let position = position(row, 0)?;
    let (event, is_deferred) =
        read(row, widths).map_err(|cause| unreadable_event(position, "the table events", cause))?;
    Ok((StoredEvent { position, event: Arc::new(event) }, is_deferred))
}

fn read(row: &Row, widths: &Widths) -> Result<(Event, bool)> {
    let json = |column| get::<Option<Json<'_>>>(row, column).map(|json| json.map(|json| json.0));
    let columns = EventValues {
        id: get(row, 1)?,
        payload: get::<Option<&[u8]>>(row, 2)?.map(Bytes::copy_from_slice),
        headers: json(4)?,
        action: json(6)?,
        time: storable(get::<Time>(row, 8)?.0, "its time")?,
        max_attempts: get::<Option<i64>>(row, 9)?.map(event_row::count).transpose()?,
        // `infinity` means that it never expires.
        expires_at: get::<Option<Time>>(row, 10)?
            .filter(|time| !time.is_infinity())
            .map(|time| storable(time.0, "the time of its expiry"))
            .transpose()?,
    };
    columns.into_event(widths, |text| get(row, FIRST_TEXT + text))
}

/// A time that has a text in every format, or the error for one that has not.
fn storable(time: Timestamp, what: &str) -> Result<Timestamp> {
    if time.is_storable() {
        return Ok(time);
    }
    let what = format!("{what} is infinite or outside the years 1 to 9999");
    Err(Error::new(Code::RowDamaged, what))
}

/// A `json` column as text.
pub(super) struct Json<'a>(pub(super) &'a str);

impl<'a> FromSql<'a> for Json<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> std::result::Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(std::str::from_utf8(raw)?))
    }

    accepts!(JSON);
}

/// The length of a text in bytes, which needs no check of its encoding.
struct TextWidth(usize);

impl<'a> FromSql<'a> for TextWidth {
    fn from_sql(_: &Type, raw: &'a [u8]) -> std::result::Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(raw.len()))
    }

    accepts!(TEXT);
}

impl ResultRow for Row {
    fn text(&self, column: usize) -> Result<Option<String>> {
        get(self, column)
    }

    fn number(&self, column: usize) -> Result<Option<i64>> {
        get(self, column)
    }

    fn flag(&self, column: usize) -> Result<Option<bool>> {
        get(self, column)
    }

    fn time(&self, column: usize) -> Result<Option<Timestamp>> {
        Ok(get::<Option<Time>>(self, column)?.map(|time| time.0))
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>> {
        get(self, column)
    }
}
