//! Turns rows that a statement returned into events, within a budget.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::dialect::SeenRow;
use super::refused::UnchangedRows;
use super::term_rows::RowId;
use crate::event::columns::headers_from_json;
use crate::layout::derived_id::derived_id;
use crate::store::Budget;
use crate::store::event_row::Widths;
use crate::{ActionContext, Aggregate, Code, Error, Event, Headers, Result, Timestamp};

/// The state of one row, without its event.
#[derive(Debug, Clone)]
pub(crate) struct RowState {
    pub(crate) id: RowId,
    /// Failed attempts so far.
    pub(crate) attempts: i64,
    /// Attempts after which it is given up.
    pub(crate) limit: u32,
    /// A claim may hand it out.
    pub(crate) is_due: bool,
    /// It is not settled as delivered.
    pub(crate) is_open: bool,
    /// Bytes of its payload and headers.
    pub(crate) bytes: usize,
    /// The payload is too large to be read with the row, and is read separately.
    pub(crate) lacks_payload: bool,
}

impl RowState {
    /// Failed attempts so far, in the relay's type.
    pub(crate) fn attempts_before(&self) -> u32 {
        u32::try_from(self.attempts.max(0)).unwrap_or(u32::MAX)
    }
}

/// The columns of a row that become an event.
#[derive(Debug)]
pub(crate) struct EventColumns {
    /// The id of the event; not always a UUID.
    pub(crate) event_key: Option<String>,
    pub(crate) event_type: String,
    pub(crate) aggregate: Option<Aggregate>,
    pub(crate) key: Option<String>,
    pub(crate) payload: Bytes,
    /// A JSON object, or `null`.
    pub(crate) headers: Option<String>,
    /// When the row was created, if the table has a column for it.
    pub(crate) created: Option<Timestamp>,
    /// When the row was read, if the table may lack that column.
    pub(crate) read_at: Option<Timestamp>,
    pub(crate) topic: Option<String>,
    pub(crate) producer: Option<String>,
    pub(crate) context: EventContext,
}

/// What only layout `eventlog` has columns for.
#[derive(Debug, Default)]
pub(crate) struct EventContext {
    pub(crate) namespace: Option<String>,
    /// `None` also if its parameters are too large to be read.
    pub(crate) action: Option<ActionContext>,
    /// Bytes of its parameters.
    pub(crate) action_bytes: usize,
    /// Until when it may be handled.
    pub(crate) expires_at: Option<Timestamp>,
}

impl EventColumns {
    fn widths(&self) -> Widths {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let aggregate = self.aggregate.as_ref();
        let aggregate = aggregate.map_or((0, 0), |aggregate| (aggregate.kind.len(), aggregate.id.len()));
        let texts = [
            ("event id", length(&self.event_key)),
            ("event type", self.event_type.len()),
            ("aggregate type", aggregate.0),
            ("aggregate id", aggregate.1),
            ("key", length(&self.key)),
            ("topic", length(&self.topic)),
            ("producer", length(&self.producer)),
            ("namespace", length(&self.context.namespace)),
            ("action name", self.context.action.as_ref().map_or(0, |action| action.name.len())),
        ];
        let mut widths = Widths::new(0, length(&self.headers), self.context.action_bytes);
        texts.into_iter().for_each(|(name, bytes)| widths.add_text(name, bytes));
        widths
    }

    /// The event of the row with this id; `max_attempts` are the attempts that it has left.
    fn event(self, row: &str, max_attempts: u32) -> Result<Event> {
        let Some(time) = self.created.or(self.read_at) else {
            return Err(Error::new(Code::RowDamaged, "it has no time"));
        };
        let mut headers = match self.headers.as_deref() {
            Some(json) if json != "null" => headers_from_json(json)?,
            _ => Headers::default(),
        };
        let key = self.event_key.as_deref().map(str::trim);
        let id = match key.map(Uuid::parse_str) {
            Some(Ok(id)) => id,
            other => {
                if let (Some(Err(_)), Some(key)) = (other, key) {
                    headers = headers.into_iter().chain([("event_key".to_owned(), key.to_owned())]).collect();
                }
                derived_id(self.created.unwrap_or_default(), row, self.aggregate.as_ref(), &self.event_type)
            }
        };
        Ok(Event {
            aggregate: self.aggregate,
            key: self.key,
            headers,
            topic: self.topic,
            max_attempts: Some(max_attempts.max(1)),
            producer: self.producer,
            namespace: self.context.namespace,
            action: self.context.action,
            expires_at: self.context.expires_at,
            ..Event::bare(id, self.event_type, self.payload, time)
        })
    }
}

/// A UUID from the text of a column.
#[cfg(feature = "_server")]
pub(crate) fn uuid(text: &str) -> Result<Uuid> {
    Uuid::parse_str(text)
        .map_err(|e| Error::new(Code::RowDamaged, "its action id is not a UUID").with_source(e))
}

/// The aggregate of an event, if the row has one.
pub(crate) fn aggregate(kind: Option<String>, id: Option<String>) -> Option<Aggregate> {
    kind.zip(id).map(|(kind, id)| Aggregate { kind, id })
}

/// The rows that were read.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// In the requested order.
    pub(crate) rows: Vec<ReadRow>,
    /// The first id that exceeded the budget.
    pub(crate) first_unread: Option<RowId>,
    /// Indexes of rows whose payload is not read yet.
    lacking_payload: Vec<usize>,
}

/// One row and its event, or the reason why it cannot be read.
#[derive(Debug)]
pub(crate) struct ReadRow {
    pub(crate) state: RowState,
    pub(crate) event: Result<Event>,
}

/// Which of the requested rows are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadScope {
    /// Those that a claim may hand out. Others do not count against the budget.
    Due,
    /// All.
    Any,
}

impl Read {
    /// Reads rows until the budget is used up; at least one. `columns` is called for rows within the budget only.
    pub(crate) fn of<R>(
        rows: impl IntoIterator<Item = R>,
        budget: Budget,
        scope: ReadScope,
        state: impl Fn(&R) -> Result<RowState>,
        columns: impl Fn(R) -> Result<EventColumns>,
    ) -> Result<Self> {
        let (mut read, mut bytes) = (Self::default(), 0usize);
        for row in rows {
            let state = state(&row)?;
            if scope == ReadScope::Due && !state.is_due {
                read.rows.push(ReadRow { state, event: Err(not_due()) });
                continue;
            }
            let full = bytes.saturating_add(state.bytes) > budget.bytes_max && bytes > 0;
            if full || read.rows.len() >= budget.events_max {
                read.first_unread = Some(state.id);
                break;
            }
            bytes = bytes.saturating_add(state.bytes.max(1));
            if state.lacks_payload {
                read.lacking_payload.push(read.rows.len());
            }
            let attempts_left = state.limit.saturating_sub(state.attempts_before()).max(1);
            let event = columns(row).and_then(|columns| {
                columns.widths().refuse()?;
                columns.event(&state.id, attempts_left)
            });
            // The other columns count as well; their size is known only now.
            bytes = bytes
                .saturating_add(event.as_ref().map_or(0, |event| event.size_bytes() - event.payload.len()));
            read.rows.push(ReadRow { event: event.map_err(|cause| damaged(&state.id, cause)), state });
        }
        Ok(read)
    }

    /// Ids of the rows whose payload is not read yet.
    #[cfg(feature = "_server")]
    pub(crate) fn lacking_payload(&self) -> Vec<&str> {
        self.lacking_payload.iter().map(|index| &*self.rows[*index].state.id).collect()
    }

    /// Adds the payloads that were not read with their rows.
    ///
    /// # Errors
    /// [`Code::StoreBusy`] if a row was deleted meanwhile.
    #[cfg(feature = "_server")]
    pub(crate) fn add_payloads(
        &mut self,
        mut payloads: std::collections::HashMap<String, Bytes>,
    ) -> Result<()> {
        for index in &self.lacking_payload {
            let ReadRow { state, event } = &mut self.rows[*index];
            let gone = || Error::new(Code::StoreBusy, "a row was deleted while it was read");
            let payload = payloads.remove(&*state.id).ok_or_else(gone)?;
            if let Ok(event) = event {
                event.payload = payload;
            }
        }
        Ok(())
    }

    /// The rows whose outcome was not recorded: rows that are still due or, in a table with marks, not delivered.
    pub(crate) fn unchanged(&self, is_marked: bool) -> UnchangedRows {
        let is_unchanged = |state: &RowState| if is_marked { state.is_open } else { state.is_due };
        let rows = self.rows.iter().filter(|row| is_unchanged(&row.state));
        let ids = rows.map(|row| Arc::clone(&row.state.id)).collect();
        UnchangedRows { ids, first_unread: self.first_unread.clone() }
    }

    /// The due rows.
    pub(crate) fn due(&self) -> Vec<SeenRow> {
        let due = self.rows.iter().filter(|row| row.state.is_due);
        due.map(|row| (Arc::clone(&row.state.id), row.state.attempts)).collect()
    }
}

/// The placeholder for a row that is skipped; it is never shown.
fn not_due() -> Error {
    Error::new(Code::StoreBusy, "the row is not due")
}

fn damaged(id: &str, cause: Error) -> Error {
    Error::new(Code::RowDamaged, format!("row {id} is not readable"))
        .with_hint("repair or delete the row; the subscription then continues")
        .with_source(cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn state(id: &str) -> RowState {
        RowState {
            id: id.into(),
            attempts: 0,
            limit: 3,
            is_due: true,
            is_open: true,
            bytes: 1,
            lacks_payload: false,
        }
    }

    fn columns(key: usize, headers: usize) -> EventColumns {
        EventColumns {
            event_key: None,
            event_type: "t".to_owned(),
            aggregate: None,
            key: Some("k".repeat(key)),
            payload: Bytes::from_static(b"x"),
            headers: Some(format!(r#"{{"h":"{}"}}"#, "v".repeat(headers))),
            created: Some(Timestamp::from_micros(1)),
            read_at: None,
            topic: None,
            producer: None,
            context: EventContext::default(),
        }
    }

    fn read(rows: &[(usize, usize)], bytes_max: usize) -> Read {
        let budget = Budget::new(100, bytes_max);
        let rows: Vec<(String, (usize, usize))> =
            rows.iter().enumerate().map(|(index, row)| (index.to_string(), *row)).collect();
        let columns = |(_, (key, headers))| Ok(columns(key, headers));
        Read::of(rows, budget, ReadScope::Any, |(id, _)| Ok(state(id)), columns).unwrap()
    }

    #[test]
    fn a_row_beyond_the_limits_is_damaged_and_other_rows_are_read() {
        let rows = [
            (1, 1),
            (Limits::READ_TEXT_BYTES_MAX + 1, 1),
            (1, Limits::READ_HEADERS_BYTES_MAX),
            (Limits::READ_TEXT_BYTES_MAX, 1),
        ];
        let read = read(&rows, usize::MAX);
        let is_read: Vec<bool> = read.rows.iter().map(|row| row.event.is_ok()).collect();
        assert_eq!(is_read, [true, false, false, true]);
        let why = read.rows[2].event.as_ref().unwrap_err().one_line();
        assert!(why.contains("headers"), "{why}");
    }

    #[test]
    fn all_columns_count_against_the_bytes() {
        let read = read(&[(1, 1_000); 20], 5_000);
        assert!((4..=6).contains(&read.rows.len()), "{} rows", read.rows.len());
        assert!(read.first_unread.is_some());
    }
}
