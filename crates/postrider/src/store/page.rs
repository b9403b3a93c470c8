//! What a claimer reads: a page of events, within a budget.

use crate::{BoxFuture, Position, Result, StoredEvent};

/// Reads committed events in position order, each once per claimer. Tracks holes: positions without an event that may
/// still get one. All of that is in memory; after a crash the next owner starts from the recorded progress.
pub trait Claimer: Send {
    /// Reads the next page: holes and tail from one snapshot, with a check that the history did not change before it.
    /// If the future is dropped, no event is lost: a later claim, or the next claimer, reads it.
    fn claim(&mut self, budget: Budget) -> BoxFuture<'_, Result<Claimed>>;
}

/// How much one claim may read. At least one event is read, of any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// Maximum number of events.
    pub events_max: usize,
    /// Maximum number of bytes. All columns count; see [`Event::size_bytes`](crate::Event::size_bytes).
    pub bytes_max: usize,
}

impl Budget {
    /// A budget of this many events and bytes.
    pub const fn new(events_max: usize, bytes_max: usize) -> Self {
        Self { events_max, bytes_max }
    }
}

/// The result of [`Claimer::claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// Events that were not handed out before.
    Page(Page),
    /// The history of the database changed, for this reason. No event was skipped.
    HistoryChanged(String),
}

/// The events of one claim, and what the same scan found out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Page {
    /// The events, by ascending position.
    pub events: Vec<StoredEvent>,
    /// Empty positions: no event will ever have one of them. Ranges, both ends included. They may overlap positions that
    /// are done.
    pub empty_positions: Vec<(Position, Position)>,
    /// Rows that cannot be read as events, and why. Each is returned once, like an event.
    pub damaged: Vec<(Position, String)>,
    /// There are more events: claim again immediately.
    pub more_at_once: bool,
    /// Not all visible events have been read, or that is unknown. Also set while `holes_full` stops reading; then an
    /// immediate claim does not help.
    pub has_unread: bool,
    /// The number of holes: ranges of positions without an event that may still get one. Every claim reads them again.
    pub holes: usize,
    /// The limit of holes; 0 on databases that have none.
    pub holes_max: usize,
    /// The limit of holes is reached: nothing new is read until some holes are filled or proven empty.
    pub holes_full: bool,
    /// Only for tables with a state per row: rows that another process changed after they were listed and before they
    /// were read.
    pub taken: usize,
}

/// The result of [`Store::fetch`](super::Store::fetch). A position that is in none of the lists did not fit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Fetched {
    /// The events found.
    pub events: Vec<StoredEvent>,
    /// Positions whose event no longer exists or cannot be read.
    pub gone: Vec<Position>,
    /// Those of `gone` whose row exists and cannot be read, and why.
    pub damaged: Vec<(Position, String)>,
    /// Positions whose row another publisher of a shared table has taken. This relay does not deliver them.
    pub taken: Vec<Position>,
}
