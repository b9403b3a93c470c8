//! A row of the table `events`: the part of reading it that is the same on every database.
//!
//! A SELECT of events has a few columns of other types first, in an order of the database's choice, and then the
//! [texts](text_columns). The database reads values; this module makes the event of them.

use bytes::Bytes;
use uuid::Uuid;

use crate::event::TEXT_FIELDS;
use crate::event::columns::{action_from_json, headers_from_json};
use crate::{Aggregate, Code, Error, Event, Limits, Position, Result, Timestamp};

/// The texts that are not among the optional ones.
const FIRST_TEXTS: [&str; 3] = ["type", "aggregate_type", "aggregate_id"];

/// The names of all text columns, in the order of the SELECT.
pub(super) fn text_columns() -> impl Iterator<Item = &'static str> {
    FIRST_TEXTS.into_iter().chain(TEXT_FIELDS.iter().map(|field| field.name))
}

/// The text columns as a list in SQL; `sql` renders one column.
pub(super) fn text_list(sql: impl FnMut(&'static str) -> String) -> String {
    text_columns().map(sql).collect::<Vec<_>>().join(", ")
}

/// The values of a row, except its texts. A payload, headers or an action that is too large to be read together with
/// the row is `None` here and has a [width](Widths).
pub(super) struct EventValues<J> {
    pub(super) id: Uuid,
    pub(super) payload: Option<Bytes>,
    /// JSON.
    pub(super) headers: Option<J>,
    /// JSON.
    pub(super) action: Option<J>,
    pub(super) time: Timestamp,
    pub(super) max_attempts: Option<u32>,
    pub(super) expires_at: Option<Timestamp>,
}

impl<J: AsRef<str>> EventValues<J> {
    /// The event, and whether some of its columns are deferred. `text` reads a text by its index in [`text_columns`].
    ///
    /// # Errors
    /// [`Code::RowDamaged`] if the row is not an event, or larger than a relay reads.
    pub(super) fn into_event<E: From<Error>>(
        self,
        widths: &Widths,
        mut text: impl FnMut(usize) -> Result<Option<String>, E>,
    ) -> Result<(Event, bool), E> {
        widths.refuse()?;
        let Self { id, payload, headers, action, time, max_attempts, expires_at } = self;
        let is_deferred = payload.is_none()
            || headers.is_none() && widths.headers > 0
            || action.is_none() && widths.action > 0;
        let event_type = text(0)?.ok_or_else(|| Error::new(Code::RowDamaged, "it has no type"))?;
        let mut event = Event::bare(id, event_type, payload.unwrap_or_default(), time);
        event.aggregate = match (text(1)?, text(2)?) {
            (Some(kind), Some(id)) => Some(Aggregate { kind, id }),
            _ => None,
        };
        for (index, field) in (FIRST_TEXTS.len()..).zip(&TEXT_FIELDS) {
            field.set(&mut event, text(index)?);
        }
        event.headers = headers.map(|json| headers_from_json(json.as_ref())).transpose()?.unwrap_or_default();
        event.action = action.map(|json| action_from_json(json.as_ref())).transpose()?;
        (event.max_attempts, event.expires_at) = (max_attempts, expires_at);
        Ok((event, is_deferred))
    }
}

/// The sizes of the columns of a row. The tables do not limit them: only the library does, and other writers may write
/// more.
#[derive(Debug, Default)]
pub(super) struct Widths {
    payload: usize,
    headers: usize,
    action: usize,
    texts: usize,
    /// The first text that is longer than a relay reads.
    too_long: Option<(&'static str, usize)>,
}

impl Widths {
    /// The sizes of the columns that may be deferred.
    pub(super) fn new(payload: usize, headers: usize, action: usize) -> Self {
        Self { payload, headers, action, ..Self::default() }
    }

    /// Adds the size of a text.
    pub(super) fn add_text(&mut self, name: &'static str, bytes: usize) {
        self.texts = self.texts.saturating_add(bytes);
        if bytes > Limits::READ_TEXT_BYTES_MAX && self.too_long.is_none() {
            self.too_long = Some((name, bytes));
        }
    }

    /// Bytes of all columns, deferred ones included.
    pub(super) fn size_bytes(&self) -> usize {
        self.payload.saturating_add(self.headers).saturating_add(self.action).saturating_add(self.texts)
    }

    /// Refuses a row that is larger than a relay reads.
    ///
    /// # Errors
    /// [`Code::RowDamaged`]: the row is parked as dead, and no other event waits for it.
    pub(super) fn refuse(&self) -> Result<()> {
        let json = [
            ("headers", self.headers, Limits::READ_HEADERS_BYTES_MAX),
            ("action", self.action, Limits::READ_ACTION_BYTES_MAX),
        ];
        let text = self.too_long.map(|(name, bytes)| (name, bytes, Limits::READ_TEXT_BYTES_MAX));
        match text.or_else(|| json.into_iter().find(|(_, bytes, max)| bytes > max)) {
            None => Ok(()),
            Some((name, bytes, max)) => {
                let what = format!("its {name} has {bytes} bytes or more; a relay reads at most {max}");
                Err(Error::new(Code::RowDamaged, what))
            }
        }
    }
}

/// The error for an event that cannot be read. `table` is the name of its table.
pub(super) fn unreadable_event(position: Position, table: &str, cause: Error) -> Error {
    Error::new(Code::RowDamaged, format!("the event at position {position} is not readable"))
        .with_hint(format!("repair or delete the row in {table}; the subscription then continues"))
        .with_source(cause)
}

/// A count, which the table's CHECK keeps in range.
///
/// # Errors
/// [`Code::RowDamaged`] if it is out of range.
pub(super) fn count(number: i64) -> Result<u32> {
    number.try_into().map_err(|_| Error::new(Code::RowDamaged, format!("{number} is not a valid count")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(payload: Option<&'static str>, headers: Option<&'static str>) -> EventValues<&'static str> {
        EventValues {
            id: Uuid::nil(),
            payload: payload.map(Bytes::from),
            headers,
            action: None,
            time: Timestamp::from_micros(0),
            max_attempts: None,
            expires_at: None,
        }
    }

    fn read(columns: EventValues<&'static str>, widths: &Widths) -> Result<(Event, bool)> {
        columns.into_event(widths, |index| Ok(text_columns().nth(index).map(str::to_owned)))
    }

    #[test]
    fn every_text_column_becomes_the_field_of_its_name() {
        let (event, _) = read(columns(Some("{}"), None), &Widths::default()).unwrap();
        assert_eq!(event.event_type, "type");
        assert_eq!(
            event.aggregate,
            Some(Aggregate { kind: "aggregate_type".into(), id: "aggregate_id".into() })
        );
        for field in &TEXT_FIELDS {
            assert_eq!(field.of(&event), Some(field.name));
        }
    }

    #[test]
    fn an_event_without_one_of_its_large_columns_is_deferred() {
        let is_deferred = |payload, headers, widths| read(columns(payload, headers), &widths).unwrap().1;
        assert!(!is_deferred(Some("{}"), Some(r#"{"a":"b"}"#), Widths::new(2, 9, 0)));
        assert!(!is_deferred(Some("{}"), None, Widths::new(2, 0, 0)));
        assert!(is_deferred(None, None, Widths::new(2_000, 0, 0)));
        assert!(is_deferred(Some("{}"), None, Widths::new(2, 9, 0)));
        assert!(is_deferred(Some("{}"), None, Widths::new(2, 0, 9)));
    }

    #[test]
    fn a_row_that_is_larger_than_a_relay_reads_is_damaged() {
        let mut widths = Widths::new(1, 0, 0);
        widths.add_text("key", Limits::READ_TEXT_BYTES_MAX);
        assert!(widths.refuse().is_ok());
        widths.add_text("topic", Limits::READ_TEXT_BYTES_MAX + 1);
        let error = read(columns(Some("{}"), None), &widths).unwrap_err();
        assert_eq!(error.code(), Code::RowDamaged);
        assert!(error.message().starts_with("its topic has 4097 bytes or more"), "{error}");
        assert!(Widths::new(0, Limits::READ_HEADERS_BYTES_MAX + 1, 0).refuse().is_err());
        assert!(Widths::new(0, 0, Limits::READ_ACTION_BYTES_MAX + 1).refuse().is_err());
    }
}
