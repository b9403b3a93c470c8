//! Turns rows that a statement returned into events, within a budget.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::refused::Unchanged;
use super::session_rows::RowId;
use crate::event::columns;
use crate::layout::derived_id;
use crate::store::Budget;
use crate::store::event_row::Widths;
use crate::{Aggregate, Code, Error, Event, Headers, Result, Timestamp};

/// The state of one row, without its event.
#[derive(Debug, Clone)]
pub(crate) struct RowState {
    pub(crate) id: RowId,
    /// Failed tries so far.
    pub(crate) attempts: i64,
    /// Tries after which it is given up.
    pub(crate) limit: u32,
    /// It may be handed out by a claim.
    pub(crate) is_due: bool,
    /// It is not settled as delivered.
    pub(crate) is_open: bool,
    /// Bytes of its payload, headers included.
    pub(crate) bytes: usize,
    /// The payload stayed behind.
    pub(crate) is_bare: bool,
}

impl RowState {
    /// Failed tries as the relay counts them.
    pub(crate) fn tried(&self) -> u32 {
        u32::try_from(self.attempts.max(0)).unwrap_or(u32::MAX)
    }
}

/// The columns of a row that become an event.
#[derive(Debug)]
pub(crate) struct Body {
    /// What the table has as its event's id, a UUID or not.
    pub(crate) event_key: Option<String>,
    pub(crate) event_type: String,
    pub(crate) aggregate: Option<Aggregate>,
    pub(crate) key: Option<String>,
    pub(crate) payload: Bytes,
    /// A JSON object, or `null`.
    pub(crate) headers: Option<String>,
    /// When the row was made, if its table tells.
    pub(crate) created: Option<Timestamp>,
    /// When it was read, if its table need not tell.
    pub(crate) read_at: Option<Timestamp>,
    pub(crate) topic: Option<String>,
    pub(crate) producer: Option<String>,
}

impl Body {
    fn widths(&self) -> Widths {
        let long = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let about = self.aggregate.as_ref().map_or((0, 0), |about| (about.kind.len(), about.id.len()));
        let texts = [
            ("event id", long(&self.event_key)),
            ("event type", self.event_type.len()),
            ("aggregate type", about.0),
            ("aggregate id", about.1),
            ("key", long(&self.key)),
            ("topic", long(&self.topic)),
            ("producer", long(&self.producer)),
        ];
        let mut widths = Widths::new(0, long(&self.headers), 0);
        texts.into_iter().for_each(|(name, bytes)| widths.add_text(name, bytes));
        widths
    }

    /// The event of the row with this id; `max_attempts` is what is left of its tries.
    fn event(self, row: &str, max_attempts: u32) -> Result<Event> {
        let Some(time) = self.created.or(self.read_at) else {
            return Err(Error::new(Code::RowDamaged, "it has no time"));
        };
        let mut headers = match self.headers.as_deref() {
            Some(json) if json != "null" => columns::headers_from_json(json)?,
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
            ..Event::bare(id, self.event_type, self.payload, time)
        })
    }
}

/// What an event is about, if its table tells.
pub(crate) fn about(kind: Option<String>, id: Option<String>) -> Option<Aggregate> {
    kind.zip(id).map(|(kind, id)| Aggregate { kind, id })
}

/// What was read of the ids asked for.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// In the order asked.
    pub(crate) rows: Vec<ReadRow>,
    /// The first id that did not fit.
    pub(crate) left: Option<RowId>,
    /// Places of rows whose payload is still to come.
    bare: Vec<usize>,
}

/// One row and its event, unless none can be made of it.
#[derive(Debug)]
pub(crate) struct ReadRow {
    pub(crate) state: RowState,
    pub(crate) event: Result<Event>,
}

/// Which rows of those asked for are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those that may be handed out by a claim; others cost nothing.
    Due,
    /// All.
    Any,
}

impl Read {
    /// Takes rows until the budget is used up; at least one. `body` is asked of a row that fits.
    pub(crate) fn of<R>(
        rows: impl IntoIterator<Item = R>,
        budget: Budget,
        which: Which,
        state: impl Fn(&R) -> Result<RowState>,
        body: impl Fn(R) -> Result<Body>,
    ) -> Result<Self> {
        let (mut read, mut bytes) = (Self::default(), 0usize);
        for row in rows {
            let state = state(&row)?;
            if which == Which::Due && !state.is_due {
                read.rows.push(ReadRow { state, event: Err(not_due()) });
                continue;
            }
            let full = bytes.saturating_add(state.bytes) > budget.bytes_max && bytes > 0;
            if full || read.rows.len() >= budget.events_max {
                read.left = Some(state.id);
                break;
            }
            bytes = bytes.saturating_add(state.bytes.max(1));
            if state.is_bare {
                read.bare.push(read.rows.len());
            }
            let left = state.limit.saturating_sub(state.tried()).max(1);
            let event = body(row).and_then(|body| {
                body.widths().refuse()?;
                body.event(&state.id, left)
            });
            // The short texts count as well; they are known only now.
            bytes = bytes
                .saturating_add(event.as_ref().map_or(0, |event| event.size_bytes() - event.payload.len()));
            read.rows.push(ReadRow { event: event.map_err(|cause| damaged(&state.id, cause)), state });
        }
        Ok(read)
    }

    /// Rows whose payload stayed behind.
    pub(crate) fn bare(&self) -> Vec<&str> {
        self.bare.iter().map(|place| &*self.rows[*place].state.id).collect()
    }

    /// Puts the payloads in that stayed behind.
    ///
    /// # Errors
    /// [`Code::StoreBusy`] if one was deleted meanwhile.
    pub(crate) fn complete(&mut self, mut payloads: HashMap<String, Bytes>) -> Result<()> {
        for place in &self.bare {
            let ReadRow { state, event } = &mut self.rows[*place];
            let gone = || Error::new(Code::StoreBusy, "a row was deleted while it was read");
            let payload = payloads.remove(&*state.id).ok_or_else(gone)?;
            if let Ok(event) = event {
                event.payload = payload;
            }
        }
        Ok(())
    }

    /// Rows that are as they were before their outcome was recorded: due, or, where rows are marked, not delivered.
    pub(crate) fn unchanged(&self, is_marked: bool) -> Unchanged {
        let is_so = |state: &RowState| if is_marked { state.is_open } else { state.is_due };
        let ids =
            self.rows.iter().filter(|row| is_so(&row.state)).map(|row| Arc::clone(&row.state.id)).collect();
        Unchanged { ids, left: self.left.clone() }
    }

    /// Rows that a claim would mark, with the attempts they were seen with.
    pub(crate) fn due(&self) -> Vec<(RowId, i64)> {
        let due = self.rows.iter().filter(|row| row.state.is_due);
        due.map(|row| (Arc::clone(&row.state.id), row.state.attempts)).collect()
    }
}

/// Of a row that is passed by; it is not shown.
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
            is_bare: false,
        }
    }

    fn body(key: usize, headers: usize) -> Body {
        Body {
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
        }
    }

    fn read(rows: &[(usize, usize)], bytes_max: usize) -> Read {
        let budget = Budget { events_max: 100, bytes_max };
        let rows: Vec<(String, (usize, usize))> =
            rows.iter().enumerate().map(|(place, row)| (place.to_string(), *row)).collect();
        let body = |(_, (key, headers))| Ok(body(key, headers));
        Read::of(rows, budget, Which::Any, |(id, _)| Ok(state(id)), body).unwrap()
    }

    #[test]
    fn a_row_beyond_the_limits_is_damaged_and_stops_no_other() {
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
        assert!(read.left.is_some());
    }
}
