//! An event as the columns of the outbox.

use super::{Batch, Written};
use crate::event::columns::{action_to_json, headers_to_json};
use crate::{Code, Error, Event, Position, Result, Timestamp};

/// Rows of one statement: fourteen values each, and no database takes more than 65,535, SQLite 32,766.
const ROWS_MAX: usize = 1_000;

/// Bytes of one statement, unless a single row is larger: half of what MariaDB takes unless told otherwise.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// The values of one row, borrowed from the event as far as they can be.
pub(super) struct Columns<'a> {
    pub(super) event: &'a Event,
    pub(super) aggregate_type: Option<&'a str>,
    pub(super) aggregate_id: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    pub(super) headers: Option<String>,
    pub(super) expires_at: Option<i64>,
    pub(super) action: Option<String>,
}

impl<'a> Columns<'a> {
    /// All rows of a batch. An event that has no row is found before any SQL runs.
    pub(super) fn of(batch: &'a Batch) -> Result<Vec<Self>> {
        if let Some(table) = batch.rows() {
            return Err(super::rows::unwritable(table));
        }
        batch.events().iter().map(Self::of_event).collect()
    }

    fn of_event(event: &'a Event) -> Result<Self> {
        Ok(Self {
            event,
            aggregate_type: event.aggregate.as_ref().map(|aggregate| aggregate.kind.as_str()),
            aggregate_id: event.aggregate.as_ref().map(|aggregate| aggregate.id.as_str()),
            key: event.key.as_deref(),
            headers: headers_to_json(&event.headers)?,
            expires_at: event.expires_at.map(Timestamp::as_micros),
            action: event.action.as_ref().map(action_to_json).transpose()?,
        })
    }
}

/// What stands in one row of a statement.
pub(super) trait Weighty {
    /// About how large it is there.
    fn bytes(&self) -> usize;
}

impl Weighty for Columns<'_> {
    fn bytes(&self) -> usize {
        let texts = [&self.headers, &self.action].into_iter().flatten().map(String::len).sum::<usize>();
        self.event.payload.len() + texts + self.event.event_type.len()
    }
}

impl Weighty for Event {
    fn bytes(&self) -> usize {
        self.payload.len() + self.event_type.len()
    }
}

/// The rows as one statement takes them.
pub(super) fn pieces<T: Weighty>(rows: &[T]) -> Vec<&[T]> {
    let (mut pieces, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (place, row) in rows.iter().enumerate() {
        let is_full = place - start == ROWS_MAX || bytes + row.bytes() > BYTES_MAX;
        if is_full && place > start {
            pieces.push(&rows[start..place]);
            (start, bytes) = (place, 0);
        }
        bytes += row.bytes();
    }
    pieces.push(&rows[start..]);
    pieces
}

/// What was written, of rows with neighbouring positions.
pub(super) fn consecutive(first: u64, rows: &[Columns<'_>]) -> Result<Vec<Written>> {
    let first = i64::try_from(first).ok().filter(|first| *first > 0);
    let first = first.ok_or_else(untold)?;
    let written = |(row, position): (&Columns<'_>, i64)| Written {
        id: row.event.id,
        position: Position::new(position),
    };
    // Not past the last position there can be.
    Ok(rows.iter().zip(first..=i64::MAX).map(written).collect())
}

/// A trigger or rule of the table's owner is at work.
pub(super) fn untold() -> Error {
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
    fn a_statement_has_so_many_rows_and_so_many_bytes_at_most() {
        let small = Event::new("a", "{}");
        assert_eq!(sizes(vec![small.clone(); 1_000]), [1_000]);
        assert_eq!(sizes(vec![small.clone(); 2_001]), [1_000, 1_000, 1]);
        let large = Event::new("a", vec![0; BYTES_MAX]);
        assert_eq!(sizes(vec![small.clone(), large.clone(), large, small.clone(), small]), [1, 1, 1, 2]);
    }
}
