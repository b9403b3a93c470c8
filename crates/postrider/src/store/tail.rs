//! What a claimer on a server has read: the book of holes, the highest event known, and the page that follows from a scan.

use std::time::Duration;

use uuid::Uuid;

use super::holes::{Holes, Patience, Ranges, Scan};
use super::page_builder::PageBuilder;
use super::writer_watch::Writers;
use super::{Page, history};
use crate::ledger::{Mark, Progress};
use crate::{Clock, Position, SystemClock};

/// How far one claimer has read.
pub(super) struct Tail {
    clock: SystemClock,
    pub(super) holes: Holes,
    /// The highest event known: it tells this history from another.
    highest: Option<Mark>,
    /// The outbox was seen to reach at least here.
    reached: Position,
}

/// What one claim learnt from the database, beside the events. See [`Scan`] for when each has to be asked.
#[derive(Debug)]
pub(super) struct ScanFacts {
    /// How far the outbox reaches: the highest position taken.
    pub(super) last: Position,
    pub(super) stamp: Option<u64>,
    pub(super) horizon: Option<u64>,
    pub(super) writers: Option<Writers>,
    /// The highest position taken, read after the list of writers.
    pub(super) taken: Position,
    pub(super) held: Vec<Position>,
}

impl Tail {
    /// Everything that is not done is to be read.
    pub(super) fn new(progress: &Progress, patience: Patience) -> Self {
        let highest = progress.highest;
        Self {
            clock: SystemClock::new(),
            holes: Holes::new(&progress.done, patience),
            highest,
            reached: progress.done.highest().max(highest.map_or(Position::ZERO, |mark| mark.position)),
        }
    }

    /// Now, on the clock that holes age by.
    pub(super) fn now(&self) -> Duration {
        self.clock.now().elapsed
    }

    /// Where the highest event known stands.
    pub(super) fn mark(&self) -> Option<Position> {
        self.highest.map(|mark| mark.position)
    }

    /// The outbox was seen to reach at least here.
    pub(super) fn reached(&self) -> Position {
        self.reached
    }

    /// What is different about the database, if anything is. `last` is how far the outbox reaches, `found` the id of the
    /// event that stands where the highest known one stood.
    pub(super) fn history_change(&self, last: Position, found: Option<Uuid>) -> Option<String> {
        history::change(last, self.reached, self.highest, found)
    }

    /// Takes in what a claim read that asked for these ranges at this time. Nothing waits here and nothing fails.
    pub(super) fn page(
        &mut self,
        asked: Ranges,
        asked_at: Duration,
        read: PageBuilder,
        facts: ScanFacts,
    ) -> Page {
        let ScanFacts { last, stamp, horizon, writers, taken, held } = facts;
        let was_full = self.holes.is_full();
        self.reached = self.reached.max(last);
        if let Some(last) = read.events.last()
            && self.highest.is_none_or(|mark| mark.position < last.position)
        {
            self.highest = Some(Mark { position: last.position, id: last.event.id });
        }
        let to_the_end = asked.reach_the_tail() && read.left.is_none();
        let found = read.found();
        let (left, held) = (read.left, &*held);
        let scan = Scan { asked, found: &found, left, stamp, horizon, writers, taken, held };
        let dead = self.holes.apply_between(scan, asked_at, self.clock.now().elapsed);
        let holes_full = self.holes.is_full();
        if holes_full && !was_full {
            tracing::warn!(
                holes = self.holes.len(),
                "too many open transactions: no new events are read until they end"
            );
        }
        Page {
            events: read.events,
            dead,
            damaged: read.damaged,
            // At the limit, reading again at once does not help; and yet not all has been read.
            more_at_once: !to_the_end && (left.is_some() || !holes_full),
            left_unread: !to_the_end,
            holes: self.holes.len(),
            holes_full,
            taken: 0,
        }
    }
}
