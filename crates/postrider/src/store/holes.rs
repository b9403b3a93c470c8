//! Tracks holes: positions that were taken, have no visible event yet, and may still get one.
//!
//! A writer takes its position before it commits, so a later position may become visible first. A reader that continues
//! after the highest position it has seen would lose the event of the slower writer. A claimer therefore asks in every
//! scan for all holes and for the positions after them, and declares a hole empty only if no transaction is left that
//! could fill it. There are two proofs:
//!
//! - **Horizon.** After it noticed the hole, the claimer took a transaction id, the *stamp*. The writer got its id
//!   before its position, so its id is lower. If a snapshot in which all lower ids have ended still shows no event at
//!   the position, the writer rolled back. Any open transaction that writes delays this proof, whatever it writes.
//! - **Writers.** After it noticed the hole, the claimer listed the transactions that have the outbox open for writing.
//!   If none of them is in a later list, and a snapshot taken after that list still shows no event at the position, the
//!   writer rolled back. A transaction that was idle while the position was taken does not count
//!   ([`writer_watch`](super::writer_watch)), so only the writer itself, and transactions that are never idle, delay
//!   this proof. The list is more expensive.
//!
//! This module uses neither a database nor a clock: callers pass in what a scan found, and when.

use std::collections::BTreeSet;
use std::time::Duration;

use super::writer_watch::{WriterWatches, Writers};
use crate::Position;
use crate::ledger::Intervals;
use crate::ledger::range_map::RangeMap;
use crate::store::row_limit;

/// The highest possible position: the end of the tail.
const END: Position = Position::LAST;

/// How far one claimer has read, and the holes below that.
#[derive(Debug)]
pub(super) struct Holes {
    patience: Patience,
    /// Every position up to this one was handed out, was done, is empty, or is a hole.
    frontier: Position,
    /// The positions that were done when the state was loaded. Only those above the frontier matter.
    done: Intervals,
    /// None is above the frontier.
    holes: RangeMap<Hole>,
    watches: WriterWatches,
    /// When the writers were last listed.
    listed_at: Option<Duration>,
}

/// How long a hole waits for the cheaper proof, and how many holes are tracked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// The writers are listed for holes that are older than this.
    pub(super) list_after: Duration,
    /// The number of holes (ranges of positions) to track. While there are this many, nothing new is read.
    pub(super) holes_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Hole {
    noticed_at: Duration,
    /// A transaction id that was assigned after the hole was noticed.
    stamp: Option<u64>,
    /// The watch over the writers that were listed after the hole was noticed.
    watch: Option<u64>,
    /// The last list of writers found an uncommitted event in the hole.
    held: bool,
}

/// The positions to ask for in one scan, as ranges with both ends included, ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    pub(super) first: Vec<i64>,
    pub(super) last: Vec<i64>,
    /// The last position that is asked for; [`END`] if the tail is included.
    up_to: Position,
}

/// The result of one scan of the database.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    /// The ranges that the scan asked for.
    pub(super) asked: Ranges,
    /// Positions handed out, ascending.
    pub(super) found: &'a [Position],
    /// The first event that was found and not handed out, if the page was full.
    pub(super) left: Option<Position>,
    /// A transaction id that was assigned after the previous scan, in a transaction that ended before this scan.
    pub(super) stamp: Option<u64>,
    /// All transactions with a lower id had ended in the snapshot of this scan.
    pub(super) horizon: Option<u64>,
    /// The writers, listed after the previous scan and before the snapshot of this one.
    pub(super) writers: Option<Writers>,
    /// The highest position assigned, read after the list of writers: higher ones were assigned later.
    pub(super) assigned_up_to: Position,
    /// Positions in holes with an uncommitted event, if they were queried after the list.
    pub(super) held: &'a [Position],
}

impl Holes {
    /// Nothing is read yet: all positions that are not done will be.
    pub(super) fn new(done: &Intervals, patience: Patience) -> Self {
        Self {
            patience,
            frontier: done.floor(),
            done: done.clone(),
            holes: RangeMap::default(),
            watches: WriterWatches::default(),
            listed_at: None,
        }
    }

    /// The number of holes.
    pub(super) fn len(&self) -> usize {
        self.holes.len()
    }

    /// The limit of holes.
    pub(super) fn max(&self) -> usize {
        self.patience.holes_max
    }

    /// Whether the limit of holes is reached, so that nothing new is read.
    pub(super) fn is_full(&self) -> bool {
        self.holes.len() >= self.patience.holes_max
    }

    /// Whether the next scan should come with a stamp.
    #[cfg(any(test, feature = "postgres"))]
    pub(super) fn wants_stamp(&self) -> bool {
        self.holes.values().any(|hole| hole.stamp.is_none())
    }

    /// Whether the next scan should come with a list of the writers.
    pub(super) fn wants_writers(&self, now: Duration) -> bool {
        let is_due = self.listed_at.is_none_or(|at| now.saturating_sub(at) >= self.patience.list_after / 10);
        is_due && self.holes.values().any(|hole| self.patience.is_over(hole, now))
    }

    /// The holes that are old enough for a list of the writers.
    #[cfg(any(test, feature = "mysql"))]
    pub(super) fn old(&self, now: Duration) -> impl Iterator<Item = (Position, Position)> {
        let old = self.holes.iter().filter(move |(.., hole)| self.patience.is_over(hole, now));
        old.map(|(first, last, _)| (first, last))
    }

    /// From now on, the writers are listed only for holes of at least this age.
    #[cfg(any(test, feature = "mysql"))]
    pub(super) fn wait_at_least(&mut self, age: Duration) {
        self.patience.list_after = self.patience.list_after.max(age);
    }

    /// The positions to scan next: all holes, and unread positions for up to `events_max` events.
    pub(super) fn ranges(&self, events_max: usize) -> Ranges {
        let mut asked = Ranges { up_to: self.frontier, ..Ranges::default() };
        self.holes.ranges().for_each(|(first, last)| asked.push(first, last));
        if self.is_full() {
            return asked;
        }
        let mut room = row_limit(events_max);
        for (first, last) in self.unread(END) {
            asked.push(first, last);
            asked.up_to = last;
            room -= last.get().saturating_sub(first.get()).saturating_add(1).min(room);
            if room == 0 {
                return asked;
            }
        }
        // All unread positions, including the tail.
        asked.up_to = END;
        asked
    }

    /// Applies a scan. Returns the positions that it proved empty.
    #[cfg(test)]
    pub(super) fn apply(&mut self, scan: Scan<'_>, now: Duration) -> Vec<(Position, Position)> {
        self.apply_between(scan, now, now)
    }

    /// The same for a scan that took some time. New holes count from its end; the list of writers counts from its
    /// beginning.
    pub(super) fn apply_between(
        &mut self,
        scan: Scan<'_>,
        asked_at: Duration,
        noticed_at: Duration,
    ) -> Vec<(Position, Position)> {
        if let Some(stamp) = scan.stamp {
            self.holes.values_mut().for_each(|hole| _ = hole.stamp.get_or_insert(stamp));
        }
        let frontier = self.frontier;
        for position in scan.found.iter().take_while(|position| **position <= frontier) {
            self.holes.remove(*position);
        }
        if let Some(writers) = &scan.writers {
            self.watch(writers, scan.assigned_up_to, scan.held, asked_at);
        }
        let empty = self.remove_empty(scan.horizon, scan.left.map_or(END, Position::previous));
        let reached = match (scan.left, scan.asked.up_to, scan.found.last()) {
            (Some(left), ..) => left.previous(),
            // Above the last event, positions may not have been taken yet.
            (None, END, last) => self.done.highest().max(last.copied().unwrap_or_default()),
            (None, up_to, _) => up_to,
        };
        self.advance(scan.found, reached, noticed_at);
        empty
    }

    /// The ranges above the frontier that are not done; the last one is the tail.
    fn unread(&self, up_to: Position) -> impl Iterator<Item = (Position, Position)> {
        let frontier = self.frontier;
        let gaps = self.done.gaps(up_to).into_iter().filter(move |(_, last)| *last > frontier);
        gaps.map(move |(first, last)| (first.max(frontier.next()), last))
    }

    /// Removes ended writers from the watches, and begins a watch for the old holes without one. The writer of such a
    /// hole is in this list or has ended, unless there is an uncommitted event in the hole.
    fn watch(&mut self, writers: &Writers, assigned_up_to: Position, held: &[Position], now: Duration) {
        self.listed_at = Some(now);
        self.watches.list(writers, assigned_up_to);
        let (patience, mut begun) = (self.patience, None);
        let unwatched = |hole: &&mut Hole| hole.watch.is_none() && patience.is_over(hole, now);
        for hole in self.holes.values_mut().filter(unwatched) {
            hole.watch = Some(*begun.get_or_insert_with(|| self.watches.begin()));
        }
        self.holes.values_mut().for_each(|hole| hole.held = false);
        for position in held {
            if let Some(hole) = self.holes.get_mut(*position) {
                hole.held = true;
            }
        }
    }

    /// Removes the holes that are proven empty and that the scan covered completely. Returns their positions.
    fn remove_empty(&mut self, horizon: Option<u64>, seen_to: Position) -> Vec<(Position, Position)> {
        let watches = &self.watches;
        let proven = |first: Position, hole: &Hole| {
            let by_horizon = horizon.zip(hole.stamp).is_some_and(|(horizon, stamp)| horizon >= stamp);
            let by_writers = !hole.held && hole.watch.is_some_and(|watch| watches.is_over(watch, first));
            by_horizon || by_writers
        };
        let mut empty: Vec<(Position, Position)> = Vec::new();
        self.holes.retain(|first, last, hole| {
            if last > seen_to || !proven(first, hole) {
                return true;
            }
            match empty.last_mut() {
                Some((_, end)) if end.next() == first => *end = last,
                _ => empty.push((first, last)),
            }
            false
        });
        let watched: BTreeSet<u64> = self.holes.values().filter_map(|hole| hole.watch).collect();
        self.watches.retain(&watched);
        empty
    }

    /// Moves the frontier. Positions below it that are neither done nor found become holes.
    fn advance(&mut self, found: &[Position], reached: Position, now: Duration) {
        let mut found = found.iter().copied().filter(|position| *position > self.frontier).peekable();
        let mut holes = Vec::new();
        for (first, last) in self.unread(reached) {
            let mut next = Some(first);
            while let Some(position) = found.next_if(|position| *position <= last) {
                holes.extend(next.map(|next| (next, position.previous())));
                next = position.checked_next();
            }
            holes.extend(next.map(|next| (next, last)));
        }
        for (first, last) in holes.into_iter().filter(|(first, last)| first <= last) {
            let hole = Hole { noticed_at: now, stamp: None, watch: None, held: false };
            self.holes.insert_disjoint(first, last, hole);
        }
        self.frontier = self.frontier.max(reached);
        if self.done.highest() <= self.frontier {
            self.done = Intervals::up_to(self.frontier);
        }
    }
}

impl Patience {
    fn is_over(&self, hole: &Hole, now: Duration) -> bool {
        now.saturating_sub(hole.noticed_at) >= self.list_after
    }
}

impl Ranges {
    fn push(&mut self, first: Position, last: Position) {
        self.first.push(first.get());
        self.last.push(last.get());
    }

    /// Whether they include the tail.
    pub(super) fn reach_the_tail(&self) -> bool {
        self.up_to == END
    }
}

#[cfg(test)]
#[path = "holes_tests.rs"]
mod tests;
