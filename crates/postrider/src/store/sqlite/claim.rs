//! Claiming: committed events in position order, each once.
//!
//! SQLite has one writer at a time, so positions become visible in their order: a missing position below the sequence
//! is empty: no event will ever have it. There are no [holes](crate::store::holes) to wait for, and
//! therefore no [tail](crate::store::tail) of a server; only the history check is the same.

use std::sync::{Arc, LazyLock};

use rusqlite::{Connection, params};

use super::failure::Attempt;
use super::worker::Worker;
use super::{history, row};
use crate::ledger::{Intervals, Progress};
use crate::store::history::Seen;
use crate::store::page_builder::PageBuilder;
use crate::store::{AsyncClaimer, Budget, Claimed, Fetched, Page};
use crate::{Position, Result, StoredEvent};

/// Index: the primary key (position); one range per gap.
static READ: LazyLock<String> = LazyLock::new(|| {
    row::with_columns(
        "SELECT {columns} FROM postrider_events
         WHERE position BETWEEN ?1 AND ?2
         ORDER BY position",
    )
});

/// Index: the primary key (position).
static FETCH: LazyLock<String> =
    LazyLock::new(|| row::with_columns("SELECT {columns} FROM postrider_events WHERE position = ?1"));

/// All events, by position.
pub(super) fn read_all(connection: &Connection) -> Attempt<Vec<StoredEvent>> {
    let mut statement = connection.prepare(&READ)?;
    let mut rows = statement.query([i64::MIN, i64::MAX])?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(row::event(row, &row::widths(row)?)?.0);
    }
    Ok(events)
}

/// Reads events from a loaded state on. A claim whose future is dropped changes nothing; the next claim reads the same
/// events.
pub(super) struct SqliteClaimer {
    reader: Worker,
    cursor: Cursor,
}

/// How far a claimer has read.
#[derive(Debug, Clone)]
struct Cursor {
    /// The positions that were done when the state was loaded; they are skipped.
    done: Arc<Intervals>,
    /// Every position up to this one was handed out, is empty, or was done.
    read_to: Position,
    seen: Seen,
}

impl SqliteClaimer {
    pub(super) fn new(reader: Worker, progress: &Progress) -> Self {
        let cursor = Cursor {
            done: Arc::new(progress.done.clone()),
            read_to: progress.done.floor(),
            seen: Seen::by(progress),
        };
        Self { reader, cursor }
    }
}

impl AsyncClaimer for SqliteClaimer {
    async fn claim(&mut self, budget: Budget) -> Result<Claimed> {
        let mut cursor = self.cursor.clone();
        let claim = move |snapshot: &mut Connection| Ok((cursor.claim(snapshot, budget)?, cursor));
        let (claimed, cursor) = self.reader.read(claim).await?;
        self.cursor = cursor;
        Ok(claimed)
    }
}

impl Cursor {
    fn claim(&mut self, snapshot: &Connection, budget: Budget) -> Attempt<Claimed> {
        let last = history::last_position(snapshot)?;
        if let Some(change) = history::change(snapshot, &self.seen, last)? {
            return Ok(Claimed::HistoryChanged(change));
        }
        let page = self.read(snapshot, budget, last)?;
        self.seen.advance(last, &page.events);
        Ok(Claimed::Page(page))
    }

    /// Reads the gaps between the positions that were done; the last gap is the tail.
    fn read(&mut self, snapshot: &Connection, budget: Budget, last: Position) -> Attempt<Page> {
        let mut statement = snapshot.prepare_cached(&READ)?;
        let waiting = usize::try_from(last.get().saturating_sub(self.read_to.get())).unwrap_or(0);
        let mut page = PageBuilder::new(budget, waiting);
        let mut empty_positions = Vec::new();
        let mut declare_empty = |first: Position, last: Position| {
            if first <= last {
                empty_positions.push((first, last));
            }
        };
        for (start, end) in self.done.gaps(last) {
            if end <= self.read_to {
                continue;
            }
            self.read_to = self.read_to.max(start.previous());
            let mut rows = statement.query(params![self.read_to.next().get(), end.get()])?;
            while let Some(row) = rows.next()? {
                let (position, widths) = (row::position(row)?, row::widths(row)?);
                declare_empty(self.read_to.next(), position.previous());
                self.read_to = position.previous();
                if !page.take(position, widths.size_bytes(), || row::event(row, &widths))? {
                    let PageBuilder { events, damaged, .. } = page;
                    let (more_at_once, has_unread) = (true, true);
                    return Ok(Page {
                        events,
                        empty_positions,
                        damaged,
                        more_at_once,
                        has_unread,
                        ..Page::default()
                    });
                }
                self.read_to = position;
            }
            if self.read_to < end {
                declare_empty(self.read_to.next(), end);
            }
            self.read_to = end;
        }
        let PageBuilder { events, damaged, .. } = page;
        Ok(Page { events, empty_positions, damaged, ..Page::default() })
    }
}

/// See [`Store::fetch`](crate::store::Store::fetch).
pub(super) fn fetch(snapshot: &Connection, positions: &[Position], bytes_max: usize) -> Attempt<Fetched> {
    let mut statement = snapshot.prepare_cached(&FETCH)?;
    let budget = Budget::new(positions.len(), bytes_max);
    let mut page = PageBuilder::new(budget, positions.len());
    for position in positions {
        let mut rows = statement.query([position.get()])?;
        let Some(row) = rows.next()? else { continue };
        let widths = row::widths(row)?;
        if !page.take(*position, widths.size_bytes(), || row::event(row, &widths))? {
            break;
        }
    }
    Ok(page.fetched(positions))
}
