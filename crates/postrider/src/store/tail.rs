//! How far a claimer on a server has read: the holes, the history seen, and the page that follows from a scan.

use std::time::Duration;

use uuid::Uuid;

use super::Page;
use super::history::Seen;
use super::holes::{Holes, Patience, Ranges, Scan};
use super::page_builder::PageBuilder;
use super::writer_watch::Writers;
use crate::ledger::Progress;
use crate::{Clock, Position, SystemClock};

/// How far one claimer has read.
pub(super) struct Tail {
    clock: SystemClock,
    pub(super) holes: Holes,
    seen: Seen,
}

/// The other results of a claim's queries. [`Scan`] documents when each must be queried.
#[derive(Debug)]
pub(super) struct ScanFacts {
    /// How far the outbox reaches: the highest position taken.
    pub(super) last: Position,
    pub(super) stamp: Option<u64>,
    pub(super) horizon: Option<u64>,
    pub(super) writers: Option<Writers>,
    /// The highest position assigned, read after the list of writers: higher ones were assigned later.
    pub(super) assigned_up_to: Position,
    pub(super) held: Vec<Position>,
}

impl Tail {
    /// A tail that still has to read everything that is not done.
    pub(super) fn new(progress: &Progress, patience: Patience) -> Self {
        Self {
            clock: SystemClock::new(),
            holes: Holes::new(&progress.done, patience),
            seen: Seen::by(progress),
        }
    }

    /// The time on the clock that measures the age of holes.
    pub(super) fn now(&self) -> Duration {
        self.clock.now().elapsed
    }

    /// The position of the highest event known.
    pub(super) fn mark(&self) -> Option<Position> {
        self.seen.highest().map(|mark| mark.position)
    }

    /// The highest position that was seen to be taken.
    #[cfg(feature = "mysql")]
    pub(super) fn reached(&self) -> Position {
        self.seen.reached()
    }

    /// See [`Seen::change`].
    pub(super) fn history_change(&self, last: Position, found: Option<Uuid>) -> Option<String> {
        self.seen.change(last, found)
    }

    /// Makes a page of the events that a claim has read; the claim asked for these ranges at this time. Neither waits
    /// nor fails: a claim that is dropped before this call has changed nothing here.
    pub(super) fn page(
        &mut self,
        asked: Ranges,
        asked_at: Duration,
        read: PageBuilder,
        facts: ScanFacts,
    ) -> Page {
        let ScanFacts { last, stamp, horizon, writers, assigned_up_to, held } = facts;
        let was_full = self.holes.is_full();
        self.seen.advance(last, &read.events);
        let to_the_end = asked.reach_the_tail() && read.left.is_none();
        let found = read.found();
        let (left, held) = (read.left, &*held);
        let scan = Scan { asked, found: &found, left, stamp, horizon, writers, assigned_up_to, held };
        let empty_positions = self.holes.apply_between(scan, asked_at, self.clock.now().elapsed);
        let holes_full = self.holes.is_full();
        if holes_full && !was_full {
            tracing::warn!(
                holes = self.holes.len(),
                "too many open transactions: no new events are read until they end"
            );
        }
        Page {
            events: read.events,
            empty_positions,
            damaged: read.damaged,
            // At the limit of holes an immediate claim does not help, although not everything has been read.
            more_at_once: !to_the_end && (left.is_some() || !holes_full),
            has_unread: !to_the_end,
            holes: self.holes.len(),
            holes_max: self.holes.max(),
            holes_full,
            taken: 0,
        }
    }
}
