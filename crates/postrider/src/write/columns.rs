//! An event as columns of the outbox. [`EVENT_COLUMNS`] is the only list of them; every writer uses it.

use uuid::Uuid;

use super::{Batch, Written};
use crate::event::columns::{action_to_json, headers_to_json};
use crate::event::{TEXT_FIELDS, TextField};
use crate::{Code, Error, Event, Position, Result, Timestamp};

/// Rows in one statement. Each column is a parameter; SQLite allows 32,766 in a statement, the others 65,535.
const ROWS_MAX: usize = 1_000;
const _: () = assert!(ROWS_MAX * EVENT_COLUMNS.len() <= 32_766);

/// Bytes in one statement, unless a single row is larger: half of MariaDB's default `max_allowed_packet`.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// A column of the table `events` that the writer fills. The column `position` is not among them: the database
/// assigns it.
#[derive(Clone, Copy)]
pub(super) struct EventColumn {
    /// Its name, the same on every database.
    pub(super) name: &'static str,
    /// The kind of value in it.
    pub(super) kind: Kind,
    source: Source,
}

/// Where the value of a column comes from.
#[derive(Clone, Copy)]
enum Source {
    Row(for<'a> fn(&'a Columns<'a>) -> Value<'a>),
    Field(TextField),
}

/// The kind of value in a column. Each database has a type for it, and each driver a way to bind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The event's id.
    Id,
    /// A text, or none.
    Text,
    /// JSON as text, or none.
    Json,
    /// Bytes.
    Bytes,
    /// A whole number, or none.
    Number,
    /// A time in microseconds since 1970, or none.
    Time,
}

/// The value of one column.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    /// Of [`Kind::Id`].
    Id(&'a Uuid),
    /// Of [`Kind::Text`] and [`Kind::Json`].
    Text(Option<&'a str>),
    /// Of [`Kind::Bytes`].
    Bytes(&'a [u8]),
    /// Of [`Kind::Number`] and [`Kind::Time`].
    Number(Option<i64>),
}

impl<'a> Value<'a> {
    /// The text of a text column.
    pub(super) fn text(self) -> Option<&'a str> {
        if let Self::Text(text) = self { text } else { None }
    }

    /// The bytes of a bytes column.
    pub(super) fn bytes(self) -> &'a [u8] {
        if let Self::Bytes(bytes) = self { bytes } else { &[] }
    }

    /// The number of a number or time column.
    pub(super) fn number(self) -> Option<i64> {
        if let Self::Number(number) = self { number } else { None }
    }
}

/// The columns that are not optional texts.
const FIRST_COLUMNS: [EventColumn; 10] = [
    column("id", Kind::Id, |row| Value::Id(&row.event.id)),
    column("type", Kind::Text, |row| Value::Text(Some(&row.event.event_type))),
    column("aggregate_type", Kind::Text, |row| Value::Text(row.aggregate_type)),
    column("aggregate_id", Kind::Text, |row| Value::Text(row.aggregate_id)),
    column("payload", Kind::Bytes, |row| Value::Bytes(&row.event.payload)),
    column("headers", Kind::Json, |row| Value::Text(row.headers.as_deref())),
    column("time", Kind::Time, |row| Value::Number(Some(row.event.time.as_micros()))),
    column("max_attempts", Kind::Number, |row| Value::Number(row.event.max_attempts.map(i64::from))),
    column("expires_at", Kind::Time, |row| Value::Number(row.expires_at)),
    column("action", Kind::Json, |row| Value::Text(row.action.as_deref())),
];

/// Every column that the writer fills, in the order of the INSERTs and of their values: the optional texts of
/// [`TEXT_FIELDS`] come last.
pub(super) const EVENT_COLUMNS: [EventColumn; FIRST_COLUMNS.len() + TEXT_FIELDS.len()] = {
    let mut columns = [FIRST_COLUMNS[0]; FIRST_COLUMNS.len() + TEXT_FIELDS.len()];
    let mut index = 0;
    while index < columns.len() {
        columns[index] = if index < FIRST_COLUMNS.len() {
            FIRST_COLUMNS[index]
        } else {
            let field = TEXT_FIELDS[index - FIRST_COLUMNS.len()];
            EventColumn { name: field.name, kind: Kind::Text, source: Source::Field(field) }
        };
        index += 1;
    }
    columns
};

const fn column(
    name: &'static str,
    kind: Kind,
    value: for<'a> fn(&'a Columns<'a>) -> Value<'a>,
) -> EventColumn {
    EventColumn { name, kind, source: Source::Row(value) }
}

/// The columns as a list in SQL; `sql` renders one column.
pub(super) fn list(sql: impl FnMut(&EventColumn) -> String) -> String {
    EVENT_COLUMNS.iter().map(sql).collect::<Vec<_>>().join(", ")
}

/// Their names as a list in SQL, each between quotes of this kind.
pub(crate) fn names(quote: &str) -> String {
    list(|column| format!("{quote}{}{quote}", column.name))
}

/// The values of one row, borrowed from the event as far as they can be.
pub(super) struct Columns<'a> {
    pub(super) event: &'a Event,
    pub(super) aggregate_type: Option<&'a str>,
    pub(super) aggregate_id: Option<&'a str>,
    pub(super) headers: Option<String>,
    pub(super) expires_at: Option<i64>,
    pub(super) action: Option<String>,
}

impl<'a> Columns<'a> {
    /// All rows of a batch. An event that cannot be converted is refused here, before any SQL runs.
    pub(super) fn of(batch: &'a Batch) -> Result<Vec<Self>> {
        if let Some(table) = batch.row_table() {
            return Err(super::rows::unwritable(table));
        }
        batch.events().iter().map(Self::of_event).collect()
    }

    fn of_event(event: &'a Event) -> Result<Self> {
        Ok(Self {
            event,
            aggregate_type: event.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str()),
            aggregate_id: event.aggregate.as_ref().map(|aggregate| aggregate.id.as_str()),
            headers: headers_to_json(&event.headers)?,
            expires_at: event.expires_at.map(Timestamp::as_micros),
            action: event.action.as_ref().map(action_to_json).transpose()?,
        })
    }
}

impl EventColumn {
    /// Its value in a row.
    pub(super) fn value<'a>(&self, row: &'a Columns<'a>) -> Value<'a> {
        match self.source {
            Source::Row(value) => value(row),
            Source::Field(field) => Value::Text(field.of(row.event)),
        }
    }
}

impl Columns<'_> {
    /// The values of the row, in the order of [`EVENT_COLUMNS`].
    pub(super) fn values(&self) -> impl Iterator<Item = Value<'_>> {
        EVENT_COLUMNS.iter().map(|column| column.value(self))
    }
}

/// One row of a statement, with its size.
pub(super) trait SizedRow {
    /// About how many bytes it adds to the statement.
    fn bytes(&self) -> usize;
}

impl SizedRow for Columns<'_> {
    fn bytes(&self) -> usize {
        let texts = [&self.headers, &self.action].into_iter().flatten().map(String::len).sum::<usize>();
        self.event.payload.len() + texts + self.event.event_type.len()
    }
}

impl SizedRow for Event {
    fn bytes(&self) -> usize {
        self.payload.len() + self.event_type.len()
    }
}

/// Splits rows into groups that fit one statement each.
pub(super) fn pieces<T: SizedRow>(rows: &[T]) -> Vec<&[T]> {
    let (mut pieces, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (index, row) in rows.iter().enumerate() {
        let is_full = index - start == ROWS_MAX || bytes + row.bytes() > BYTES_MAX;
        if is_full && index > start {
            pieces.push(&rows[start..index]);
            (start, bytes) = (index, 0);
        }
        bytes += row.bytes();
    }
    pieces.push(&rows[start..]);
    pieces
}

/// The events of rows whose positions follow each other from `first`.
pub(super) fn consecutive(first: u64, rows: &[Columns<'_>]) -> Result<Vec<Written>> {
    let first = i64::try_from(first).ok().filter(|first| *first > 0);
    let first = first.ok_or_else(positions_missing)?;
    let written = |(row, position): (&Columns<'_>, i64)| Written {
        id: row.event.id,
        position: Position::new(position),
    };
    // The range is bounded, so that it cannot overflow at the highest position.
    Ok(rows.iter().zip(first..=i64::MAX).map(written).collect())
}

/// The error if the INSERT did not return one position per event. Only a trigger or rule on the table can cause that.
pub(super) fn positions_missing() -> Error {
    Error::new(Code::OutcomeUnknown, "the database did not return the positions of the events")
        .with_hint("remove triggers and rules from the table events that drop or reorder rows")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ident;

    fn sizes(events: Vec<Event>) -> Vec<usize> {
        let batch = Batch::checked(events, Ident::default(), None);
        pieces(&Columns::of(&batch).unwrap()).into_iter().map(<[_]>::len).collect()
    }

    #[test]
    fn a_statement_is_limited_in_rows_and_in_bytes() {
        let small = Event::new("a", "{}");
        assert_eq!(sizes(vec![small.clone(); 1_000]), [1_000]);
        assert_eq!(sizes(vec![small.clone(); 2_001]), [1_000, 1_000, 1]);
        let large = Event::new("a", vec![0; BYTES_MAX]);
        assert_eq!(sizes(vec![small.clone(), large.clone(), large, small.clone(), small]), [1, 1, 1, 2]);
    }
}
