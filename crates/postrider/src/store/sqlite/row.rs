//! From a row of `postrider_events` to an [`Event`].
//!
//! The table's STRICT types and CHECKs exclude most rows that are not readable. A row that is damaged nevertheless is
//! [`Code::RowDamaged`]: the claim reports it, and the relay parks it as dead, so that operators see it and no other
//! event waits for it.

use std::sync::Arc;

use bytes::Bytes;
use rusqlite::Row;
use rusqlite::types::ValueRef;
use uuid::Uuid;

use super::failure::{Attempt, SqliteFailure};
use crate::store::event_row::{EventValues, Widths, text_columns, text_list, unreadable_event};
use crate::store::result_row::ResultRow;
use crate::{Code, Error, Event, Position, Result, StoredEvent, Timestamp};

/// Index of the first [text column](text_columns) in the SELECT.
const FIRST_TEXT: usize = 8;

/// A SELECT with its `{columns}` put in: those that [`event`] reads.
pub(super) fn with_columns(select: &str) -> String {
    let columns = format!(
        "position, id, payload, headers, action, time, max_attempts, expires_at, {}",
        text_list(str::to_owned)
    );
    select.replace("{columns}", &columns)
}

/// The position of the row.
pub(super) fn position(row: &Row<'_>) -> Attempt<Position> {
    Ok(Position::new(row.get(0)?))
}

/// The sizes of all columns.
pub(super) fn widths(row: &Row<'_>) -> Attempt<Widths> {
    let length = |column| -> Attempt<usize> {
        match row.get_ref(column)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes.len()),
            _ => Ok(0),
        }
    };
    let mut widths = Widths::new(length(2)?, length(3)?, length(4)?);
    for (column, name) in (FIRST_TEXT..).zip(text_columns()) {
        widths.add_text(name, length(column)?);
    }
    Ok(widths)
}

/// The event of the row. No column is deferred: the file is local.
pub(super) fn event(row: &Row<'_>, widths: &Widths) -> Attempt<(StoredEvent, bool)> {
    let position = position(row)?;
    let (event, is_deferred) = read(row, widths)
        .map_err(|cause| unreadable_event(position, "postrider_events", Error::from(cause)))?;
    Ok((StoredEvent { position, event: Arc::new(event) }, is_deferred))
}

fn read(row: &Row<'_>, widths: &Widths) -> Attempt<(Event, bool)> {
    let columns = EventValues {
        id: uuid(row.get_ref(1)?)?,
        payload: Some(bytes(row.get_ref(2)?)?),
        headers: text(row, 3)?,
        action: text(row, 4)?,
        time: Timestamp::from_micros(row.get(5)?),
        max_attempts: row.get(6)?,
        expires_at: row.get::<_, Option<i64>>(7)?.map(Timestamp::from_micros),
    };
    columns.into_event(widths, |text| Ok(row.get(FIRST_TEXT + text)?))
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

impl ResultRow for Row<'_> {
    fn text(&self, column: usize) -> Result<Option<String>> {
        Ok(self.get(column).map_err(SqliteFailure::from)?)
    }

    fn number(&self, column: usize) -> Result<Option<i64>> {
        Ok(self.get(column).map_err(SqliteFailure::from)?)
    }

    fn flag(&self, column: usize) -> Result<Option<bool>> {
        Ok(self.get(column).map_err(SqliteFailure::from)?)
    }

    fn time(&self, column: usize) -> Result<Option<Timestamp>> {
        Ok(self.number(column)?.map(Timestamp::from_micros))
    }

    #[cfg(feature = "_server")]
    fn uuid(&self, column: usize) -> Result<Option<Uuid>> {
        let text = ResultRow::text(self, column)?;
        let parse =
            |text: String| text.parse().map_err(|_| Error::new(Code::RowDamaged, "an id is not a UUID"));
        text.map(parse).transpose()
    }
}
