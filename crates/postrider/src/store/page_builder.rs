//! Builds a page of events until its budget is used up.

#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::sync::Arc;

#[cfg(any(feature = "postgres", feature = "mysql"))]
use bytes::Bytes;

use super::{Budget, Fetched};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::{Action, Event, Headers};
use crate::{Code, Error, Limits, Position, Result, StoredEvent};

/// Largest capacity that is allocated for a page in advance; a larger page grows.
const ROOM_EVENTS_MAX: usize = 2_048;

/// Payload, headers and action up to this size are always read together with their row.
#[cfg(any(feature = "postgres", feature = "mysql"))]
const PAYLOAD_BYTES_SMALL: usize = 1_024;

/// Payloads up to this size are read together with their rows, which keeps a full page within the budget. Larger ones
/// are read in a second round trip, once it is known which of them fit.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) fn payload_limit(budget: Budget) -> i32 {
    let fair = budget.bytes_max / budget.events_max.max(1);
    i32::try_from(fair.max(PAYLOAD_BYTES_SMALL)).unwrap_or(i32::MAX)
}

/// Collects events until the budget is used up. The first always fits, so that a large event cannot stop the outbox.
pub(super) struct PageBuilder {
    budget: Budget,
    bytes: usize,
    pub(super) events: Vec<StoredEvent>,
    /// Rows that cannot be read as events, and why.
    pub(super) damaged: Vec<(Position, String)>,
    /// The first position that did not fit.
    pub(super) left: Option<Position>,
    /// Indexes of events of which some columns are still to be read.
    deferred: Vec<usize>,
}

/// Payload, headers and action of an event, where they are too large to be read together with their row. They are
/// read once it is known that they fit.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(super) struct DeferredColumns {
    pub(super) payload: Bytes,
    pub(super) headers: Headers,
    pub(super) action: Option<Action>,
}

impl PageBuilder {
    /// An empty page with capacity for `expected` events.
    pub(super) fn new(budget: Budget, expected: usize) -> Self {
        let room = expected.min(budget.events_max).min(ROOM_EVENTS_MAX);
        Self {
            budget,
            bytes: 0,
            events: Vec::with_capacity(room),
            damaged: Vec::new(),
            left: None,
            deferred: Vec::new(),
        }
    }

    /// Whether an event of this size exceeds the budget. A damaged row counts as an event: if the query returned as
    /// many rows as its limit, there may be more.
    fn is_full_for(&self, bytes_more: usize) -> bool {
        let bytes = self.bytes.saturating_add(bytes_more);
        let taken = self.events.len() + self.damaged.len();
        taken > 0 && (taken >= self.budget.events_max || bytes > self.budget.bytes_max)
    }

    /// Adds the event of the next row, or ends the page if it does not fit. `bytes` counts all columns, also those
    /// that are read later; `event` returns the event and whether some of its columns are deferred. Returns whether
    /// the page has room for the next row.
    ///
    /// A row that cannot be read is listed as damaged: it must not stop the others, nor be skipped without a trace.
    ///
    /// # Errors
    /// Any error except a damaged row's.
    pub(super) fn take<E>(
        &mut self,
        position: Position,
        bytes: usize,
        event: impl FnOnce() -> Result<(StoredEvent, bool), E>,
    ) -> Result<bool>
    where
        Error: From<E>,
    {
        if self.left.is_some() {
            return Ok(false);
        }
        if self.is_full_for(bytes) {
            self.left = Some(position);
            return Ok(false);
        }
        match event().map_err(Error::from) {
            Ok((event, is_deferred)) => {
                if is_deferred {
                    self.deferred.push(self.events.len());
                }
                self.bytes = self.bytes.saturating_add(bytes);
                self.events.push(event);
            }
            Err(error) if error.code() == Code::RowDamaged => self.damaged.push((position, error.one_line())),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// The events of which some columns are still to be read.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) fn deferred(&self) -> impl ExactSizeIterator<Item = &StoredEvent> {
        self.deferred.iter().map(|place| &self.events[*place])
    }

    /// Adds the deferred columns, in the order of [`deferred`](Self::deferred) and one for each. An event whose
    /// columns cannot be read is damaged.
    ///
    /// # Errors
    /// Any error except a damaged row's.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) fn complete(
        &mut self,
        columns: impl IntoIterator<Item = Result<DeferredColumns>>,
    ) -> Result<()> {
        let mut damaged = Vec::new();
        for (place, columns) in std::mem::take(&mut self.deferred).into_iter().zip(columns) {
            match columns {
                // No one else holds the event yet, so the pointer is unique.
                Ok(columns) => {
                    _ = Arc::get_mut(&mut self.events[place].event).map(|event| columns.put_into(event));
                }
                Err(error) if error.code() == Code::RowDamaged => damaged.push((place, error.one_line())),
                Err(error) => return Err(error),
            }
        }
        for (place, why) in damaged.into_iter().rev() {
            self.damaged.push((self.events.remove(place).position, why));
        }
        Ok(())
    }

    /// The positions of all events and damaged rows, ascending if the rows were.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) fn found(&self) -> Vec<Position> {
        let events = self.events.iter().map(|event| event.position);
        let mut found: Vec<Position> = events.chain(self.damaged.iter().map(|(at, _)| *at)).collect();
        if !self.damaged.is_empty() {
            found.sort_unstable();
        }
        found
    }

    /// The answer to [`Store::fetch`](super::Store::fetch), if the rows came in the order of these positions. A
    /// position before the first event that did not fit, and without an event, is gone.
    pub(super) fn fetched(self, positions: &[Position]) -> Fetched {
        let looked_at = positions.iter().take_while(|position| Some(**position) != self.left);
        let mut found = self.events.iter().map(|event| event.position).peekable();
        let gone = looked_at.copied().filter(|position| found.next_if_eq(position).is_none()).collect();
        Fetched { events: self.events, gone, ..Fetched::default() }
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
impl DeferredColumns {
    fn put_into(self, event: &mut Event) {
        (event.payload, event.headers, event.action) = (self.payload, self.headers, self.action);
    }
}

/// The sizes of columns that the table does not limit; only the library does, and other writers may exceed it.
#[derive(Debug, Default)]
pub(super) struct Widths {
    /// Names and lengths of the short texts.
    pub(super) texts: Vec<(&'static str, usize)>,
    pub(super) headers: usize,
    pub(super) action: usize,
}

impl Widths {
    /// Refuses a row that is beyond what a relay reads.
    ///
    /// # Errors
    /// [`Code::RowDamaged`]: the row is parked as dead, and no other event waits for it.
    pub(super) fn refuse(&self) -> Result<()> {
        let texts = self.texts.iter().map(|(name, bytes)| (*name, *bytes, Limits::READ_TEXT_BYTES_MAX));
        let wide = [
            ("headers", self.headers, Limits::READ_HEADERS_BYTES_MAX),
            ("action", self.action, Limits::READ_ACTION_BYTES_MAX),
        ];
        match texts.chain(wide).find(|(_, bytes, most)| bytes > most) {
            None => Ok(()),
            Some((name, bytes, most)) => {
                let what = format!("its {name} has {bytes} bytes or more; a relay reads at most {most}");
                Err(Error::new(Code::RowDamaged, what))
            }
        }
    }
}
