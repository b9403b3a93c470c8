//! Builds a page of events until its budget is used up.

#[cfg(feature = "_server")]
use std::sync::Arc;

#[cfg(feature = "_server")]
use bytes::Bytes;

use super::{Budget, Fetched};
#[cfg(feature = "_server")]
use crate::{ActionContext, Headers};
use crate::{Code, Error, Position, Result, StoredEvent};

/// The largest capacity that is allocated in advance; a larger page grows.
const ROOM_EVENTS_MAX: usize = 2_048;

/// Payload, headers and action up to this size are always read together with their row.
#[cfg(feature = "_server")]
const PAYLOAD_BYTES_SMALL: usize = 1_024;

/// Payloads up to this size are read together with their rows, which keeps a full page within the budget. Larger ones
/// are read in a second round trip, once it is known which of them fit.
#[cfg(feature = "_server")]
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

/// Payload, headers and action of an event that were too large to be read together with their row.
#[cfg(feature = "_server")]
pub(super) struct DeferredColumns {
    pub(super) payload: Bytes,
    pub(super) headers: Headers,
    pub(super) action: Option<ActionContext>,
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

    /// Whether an event of this size exceeds the budget. A damaged row counts as an event: if the query returned the
    /// maximum number of rows, there may be more.
    fn is_full_for(&self, bytes_more: usize) -> bool {
        let bytes = self.bytes.saturating_add(bytes_more);
        let taken = self.events.len() + self.damaged.len();
        taken > 0 && (taken >= self.budget.events_max || bytes > self.budget.bytes_max)
    }

    /// Adds the event of the next row, or ends the page if it does not fit. `bytes` counts all columns, also those
    /// that are read later; `event` returns the event and whether some of its columns are deferred. Returns whether
    /// the page has room for the next row.
    ///
    /// A row that cannot be read is listed as damaged: it must neither stop the others nor be skipped silently.
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
    #[cfg(feature = "_server")]
    pub(super) fn deferred(&self) -> impl ExactSizeIterator<Item = &StoredEvent> {
        self.deferred.iter().map(|index| &self.events[*index])
    }

    /// Adds the deferred columns: one result for each of [`deferred`](Self::deferred), in the same order. An event
    /// whose columns cannot be read is damaged.
    ///
    /// # Errors
    /// Any error except a damaged row's. [`Code::StoreFailed`] if there is not exactly one result per event: no event
    /// may leave with an empty payload in place of its own.
    #[cfg(feature = "_server")]
    pub(super) fn complete(&mut self, columns: Vec<Result<DeferredColumns>>) -> Result<()> {
        let deferred = std::mem::take(&mut self.deferred);
        if deferred.len() != columns.len() {
            let what =
                format!("the deferred columns of {} events are {} results", deferred.len(), columns.len());
            return Err(Error::new(Code::StoreFailed, what));
        }
        let mut damaged = Vec::new();
        for (index, columns) in deferred.into_iter().zip(columns) {
            match columns {
                Ok(columns) => columns.put_into(&mut self.events[index])?,
                Err(error) if error.code() == Code::RowDamaged => damaged.push((index, error.one_line())),
                Err(error) => return Err(error),
            }
        }
        for (index, why) in damaged.into_iter().rev() {
            self.damaged.push((self.events.remove(index).position, why));
        }
        Ok(())
    }

    /// The positions of all events and damaged rows, ascending if the rows were.
    #[cfg(feature = "_server")]
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
        let read = positions.iter().take_while(|position| Some(**position) != self.left);
        let mut found = self.events.iter().map(|event| event.position).peekable();
        let gone = read.copied().filter(|position| found.next_if_eq(position).is_none()).collect();
        Fetched { events: self.events, gone, damaged: self.damaged, ..Fetched::default() }
    }
}

#[cfg(feature = "_server")]
impl DeferredColumns {
    fn put_into(self, stored: &mut StoredEvent) -> Result<()> {
        // The page has not been handed out yet, so nothing else can share the event.
        let event = Arc::get_mut(&mut stored.event).ok_or_else(|| {
            Error::new(
                Code::StoreFailed,
                format!("the event at position {} is already in use", stored.position),
            )
        })?;
        (event.payload, event.headers, event.action) = (self.payload, self.headers, self.action);
        Ok(())
    }
}

#[cfg(test)]
#[cfg(feature = "_server")]
mod tests {
    use super::*;
    use crate::Event;

    /// A page of events at 1, 2, ... whose columns are all deferred.
    fn deferred_page(events: i64) -> PageBuilder {
        let mut page = PageBuilder::new(Budget::new(10, 1_000), 0);
        for position in (1..=events).map(Position::new) {
            let event = || Ok((StoredEvent { position, event: Arc::new(Event::new("a", "")) }, true));
            page.take::<Error>(position, 1, event).unwrap();
        }
        page
    }

    fn columns(payload: &'static str) -> Result<DeferredColumns> {
        Ok(DeferredColumns { payload: payload.into(), headers: Headers::default(), action: None })
    }

    fn damaged() -> Result<DeferredColumns> {
        Err(Error::new(Code::RowDamaged, "unreadable"))
    }

    #[test]
    fn deferred_columns_are_put_into_their_events_and_unreadable_ones_are_damaged() {
        let mut page = deferred_page(3);
        page.complete(vec![columns("one"), damaged(), columns("three")]).unwrap();
        let payloads: Vec<_> =
            page.events.iter().map(|event| (event.position.get(), &event.event.payload[..])).collect();
        assert_eq!(payloads, [(1, &b"one"[..]), (3, b"three")]);
        assert_eq!(page.damaged[0].0, Position::new(2));
        assert_eq!(page.found(), [1, 2, 3].map(Position::new));
    }

    #[test]
    fn a_page_with_a_missing_or_an_extra_payload_is_refused() {
        for columns in [vec![columns("one")], vec![columns("1"), columns("2"), columns("3")], Vec::new()] {
            let error = deferred_page(2).complete(columns).unwrap_err();
            assert_eq!(error.code(), Code::StoreFailed);
        }
    }

    #[test]
    fn an_event_that_is_already_in_use_is_not_completed() {
        let mut page = deferred_page(1);
        let in_use = page.events[0].clone();
        assert_eq!(page.complete(vec![columns("one")]).unwrap_err().code(), Code::StoreFailed);
        assert!(in_use.event.payload.is_empty());
    }
}
