//! Claiming: committed events in position order, each once.
//!
//! SQLite has one writer at a time, so positions are committed in their order, and a position that is
//! absent below the sequence will never be filled: it is dead at once. A rolled back transaction gives its
//! positions back, it leaves no hole.

use std::sync::Arc;

use rusqlite::{Connection, params};

use super::failure::Attempt;
use super::history;
use super::row::{self, event_columns};
use super::worker::Worker;
use crate::ledger::{Intervals, Mark, Progress};
use crate::store::page_builder::PageBuilder;
use crate::store::{AsyncClaimer, Budget, Claimed, Fetched, Page};
use crate::{Position, Result, StoredEvent};

/// Reads on from a loaded state. Dropping the future of a claim loses nothing: the next reads it again.
pub(super) struct SqliteClaimer {
    reader: Worker,
    cursor: Cursor,
}

/// How far a claimer has read.
#[derive(Debug, Clone)]
struct Cursor {
    /// What was done when the state was loaded; skipped.
    done: Arc<Intervals>,
    /// Everything up to here was handed out, is dead, or was done.
    read_to: Position,
    /// The highest event known: it tells this history from another.
    highest: Option<Mark>,
    /// The sequence was seen at least here.
    sequence: Position,
}

impl SqliteClaimer {
    pub(super) fn new(reader: Worker, progress: &Progress) -> Self {
        let highest = progress.highest;
        let sequence = progress.done.highest().max(highest.map_or(Position::ZERO, |mark| mark.position));
        let cursor = Cursor {
            done: Arc::new(progress.done.clone()),
            read_to: progress.done.floor(),
            highest,
            sequence,
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
        let sequence = history::last_position(snapshot)?;
        if let Some(change) = history::change(snapshot, sequence, self.sequence, self.highest)? {
            return Ok(Claimed::HistoryChanged(change));
        }
        self.sequence = sequence;
        let page = self.read(snapshot, budget, sequence)?;
        if let Some(last) = page.events.last()
            && self.highest.is_none_or(|mark| mark.position < last.position)
        {
            self.highest = Some(Mark { position: last.position, id: last.event.id });
        }
        Ok(Claimed::Page(page))
    }

    /// Reads the gaps between what was done, the last of which is the tail.
    fn read(&mut self, snapshot: &Connection, budget: Budget, sequence: Position) -> Attempt<Page> {
        // Index: the primary key (position); one range per gap.
        let mut statement = snapshot.prepare_cached(concat!(
            "SELECT ",
            event_columns!(),
            " FROM postrider_events
              WHERE position BETWEEN ?1 AND ?2
              ORDER BY position"
        ))?;
        let waiting = usize::try_from(sequence.get().saturating_sub(self.read_to.get())).unwrap_or(0);
        let mut page = PageBuilder::new(budget, waiting);
        let mut dead = Vec::new();
        let mut bury = |first: Position, last: Position| {
            if first <= last {
                dead.push((first, last));
            }
        };
        for (start, end) in self.done.gaps(sequence) {
            if end <= self.read_to {
                continue;
            }
            self.read_to = self.read_to.max(start.previous());
            let mut rows = statement.query(params![self.read_to.next().get(), end.get()])?;
            while let Some(row) = rows.next()? {
                let position = row::position(row)?;
                bury(self.read_to.next(), position.previous());
                self.read_to = position.previous();
                if !page.take(position, row::size_bytes(row)?, || whole(row))? {
                    let PageBuilder { events, damaged, .. } = page;
                    let (more_at_once, has_unread) = (true, true);
                    return Ok(Page { events, dead, damaged, more_at_once, has_unread, ..Page::default() });
                }
                self.read_to = position;
            }
            if self.read_to < end {
                bury(self.read_to.next(), end);
            }
            self.read_to = end;
        }
        let PageBuilder { events, damaged, .. } = page;
        Ok(Page { events, dead, damaged, ..Page::default() })
    }
}

/// See [`Store::fetch`](crate::store::Store::fetch).
pub(super) fn fetch(snapshot: &Connection, positions: &[Position], bytes_max: usize) -> Attempt<Fetched> {
    // Index: the primary key (position).
    let mut statement = snapshot.prepare_cached(concat!(
        "SELECT ",
        event_columns!(),
        " FROM postrider_events
          WHERE position = ?1"
    ))?;
    let budget = Budget { events_max: positions.len(), bytes_max };
    let mut page = PageBuilder::new(budget, positions.len());
    for position in positions {
        let mut rows = statement.query([position.get()])?;
        let Some(row) = rows.next()? else { continue };
        if !page.take(*position, row::size_bytes(row)?, || whole(row))? {
            break;
        }
    }
    Ok(page.fetched(positions))
}

/// An event comes as a whole: the file is here.
fn whole(row: &rusqlite::Row<'_>) -> Attempt<(StoredEvent, bool)> {
    Ok((row::event(row)?, false))
}
