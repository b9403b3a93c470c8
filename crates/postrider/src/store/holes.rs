//! The book of holes: positions that were taken, hold no event yet, and may still get one.
//!
//! A writer takes its position before it commits, so a later position may become visible first. A reader that
//! then reads on from the highest position seen loses the event of the slower writer. A claimer therefore
//! asks in every scan for all holes and for what comes after them, in one stream, and drops a hole only
//! when it is proven that no transaction is left that could fill it. Two proofs are known:
//!
//! - **Horizon.** After it noticed the hole, the claimer took a transaction id of its own, the *stamp*. The
//!   writer got its id before its position, so its id is lower. Once a snapshot has every lower id behind
//!   it and the position is still empty in it, the writer rolled back. Any writer that stays open delays
//!   this proof, whatever it writes.
//! - **Writers.** After it noticed the hole, the claimer listed the transactions that have the outbox open
//!   for writing. Once none of these is in a later list, and a snapshot taken after that list still shows
//!   the position empty, the writer rolled back. Who did nothing while the position was taken need not be
//!   waited for ([`writer_watch`](super::writer_watch)), so only the writer itself, and who is busy all the time, delays this
//!   proof; the list costs more.
//!
//! Nothing here knows a database or a clock: the book is reported what was seen, and when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::writer_watch::{WriterWatches, Writers};
use crate::Position;
use crate::ledger::Intervals;

/// The highest position there can be: where the tail ends.
const END: Position = Position::LAST;

/// What one claimer has read and what it still waits for.
#[derive(Debug)]
pub(super) struct Holes {
    patience: Patience,
    /// Up to here every position was handed out, done before or dead, or is a hole.
    frontier: Position,
    /// What was done when the state was loaded. Matters above the frontier only.
    done: Intervals,
    /// First position of each hole to the rest of it. Disjoint, all up to the frontier.
    holes: BTreeMap<Position, Hole>,
    watches: WriterWatches,
    listed_at: Option<Duration>,
}

/// How long and how much to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Holes older than this are worth listing the writers.
    pub(super) list_after: Duration,
    /// Holes (ranges of positions) to keep in mind. With this many, nothing new is read.
    pub(super) holes_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Hole {
    last: Position,
    noticed_at: Duration,
    stamp: Option<u64>,
    watch: Option<u64>,
    /// When the writers were last listed an event stood here that was not committed.
    held: bool,
}

/// The positions to ask for in one scan, as ranges with both ends included, ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    pub(super) first: Vec<i64>,
    pub(super) last: Vec<i64>,
    /// How far the new ones reach; [`END`] with the tail.
    up_to: Position,
}

/// What a scan at the database brought.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    /// What was asked for.
    pub(super) asked: Ranges,
    /// Positions handed out, ascending.
    pub(super) found: &'a [Position],
    /// The first position that was seen and not handed out, if the page was full.
    pub(super) left: Option<Position>,
    /// A transaction id the claimer took after the scan before this one, and gave back before this one.
    pub(super) stamp: Option<u64>,
    /// Every transaction with a lower id was over in the snapshot of this scan.
    pub(super) horizon: Option<u64>,
    /// The writers, listed after the scan before this one and before the snapshot of this one was taken.
    pub(super) writers: Option<Writers>,
    /// The highest position taken, read after the list.
    pub(super) taken: Position,
    /// Positions of holes at which an event stands that is not committed, as far as that was asked after the list.
    pub(super) held: &'a [Position],
}

impl Holes {
    /// A new book: everything that is not done is to be read.
    pub(super) fn new(done: &Intervals, patience: Patience) -> Self {
        Self {
            patience,
            frontier: done.floor(),
            done: done.clone(),
            holes: BTreeMap::new(),
            watches: WriterWatches::default(),
            listed_at: None,
        }
    }

    /// How many holes there are.
    pub(super) fn len(&self) -> usize {
        self.holes.len()
    }

    /// Whether nothing new is read for now.
    pub(super) fn is_full(&self) -> bool {
        self.holes.len() >= self.patience.holes_max
    }

    /// Whether a scan would be worth a stamp.
    #[cfg(any(test, feature = "postgres"))]
    pub(super) fn wants_stamp(&self) -> bool {
        self.holes.values().any(|hole| hole.stamp.is_none())
    }

    /// Whether a scan would be worth a list of the writers.
    pub(super) fn wants_writers(&self, now: Duration) -> bool {
        let rested = self.listed_at.is_none_or(|at| now.saturating_sub(at) >= self.patience.list_after / 10);
        rested && self.holes.values().any(|hole| self.patience.is_over(hole, now))
    }

    /// The holes that are worth a list of the writers.
    #[cfg(any(test, feature = "mysql"))]
    pub(super) fn old(&self, now: Duration) -> impl Iterator<Item = (Position, Position)> {
        let old = self.holes.iter().filter(move |(_, hole)| self.patience.is_over(hole, now));
        old.map(|(first, hole)| (*first, hole.last))
    }

    /// Holes have to be at least this old to be worth a list of the writers.
    #[cfg(any(test, feature = "mysql"))]
    pub(super) fn wait_at_least(&mut self, age: Duration) {
        self.patience.list_after = self.patience.list_after.max(age);
    }

    /// All holes, and as many positions never looked at as can hold `events_max` events.
    pub(super) fn ranges(&self, events_max: usize) -> Ranges {
        let mut asked = Ranges { up_to: self.frontier, ..Ranges::default() };
        self.holes.iter().for_each(|(first, hole)| asked.push(*first, hole.last));
        if self.is_full() {
            return asked;
        }
        let mut room = i64::try_from(events_max).unwrap_or(i64::MAX);
        for (first, last) in self.unread(END) {
            asked.push(first, last);
            asked.up_to = last;
            room -= last.get().saturating_sub(first.get()).saturating_add(1).min(room);
            if room == 0 {
                return asked;
            }
        }
        // All that is left, the tail included, if the last position there can be has not been read.
        asked.up_to = END;
        asked
    }

    /// Applies a scan. Answers the positions it proved dead.
    #[cfg(test)]
    pub(super) fn apply(&mut self, scan: Scan<'_>, now: Duration) -> Vec<(Position, Position)> {
        self.apply_between(scan, now, now)
    }

    /// The same for a scan that took its time: what it found missing was noticed at its end, and what it says of older holes
    /// was asked at its beginning.
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
            self.fill(*position);
        }
        if let Some(writers) = &scan.writers {
            self.watch(writers, scan.taken, scan.held, asked_at);
        }
        let dead = self.bury(scan.horizon, scan.left.map_or(END, Position::previous));
        let reached = match (scan.left, scan.asked.up_to, scan.found.last()) {
            (Some(left), ..) => left.previous(),
            // Beyond the last event no position need have been taken yet.
            (None, END, last) => self.done.highest().max(last.copied().unwrap_or_default()),
            (None, up_to, _) => up_to,
        };
        self.notice(scan.found, reached, noticed_at);
        dead
    }

    /// The ranges above the frontier that are not done, the last of which is the tail.
    fn unread(&self, up_to: Position) -> impl Iterator<Item = (Position, Position)> {
        let frontier = self.frontier;
        let gaps = self.done.gaps(up_to).into_iter().filter(move |(_, last)| *last > frontier);
        gaps.map(move |(first, last)| (first.max(frontier.next()), last))
    }

    /// Takes one position out of its hole.
    fn fill(&mut self, position: Position) {
        let Some((first, hole)) = self.holes.range(..=position).next_back() else { return };
        let (first, hole) = (*first, *hole);
        if position > hole.last {
            return;
        }
        self.holes.remove(&first);
        if first < position {
            self.holes.insert(first, Hole { last: position.previous(), ..hole });
        }
        if position < hole.last {
            self.holes.insert(position.next(), hole);
        }
    }

    /// Crosses out writers that are gone, and notes who is there for the holes that are old enough. The writer that took
    /// the position of such a hole is in this list or over; unless an event stands there that is not committed.
    fn watch(&mut self, writers: &Writers, taken: Position, held: &[Position], now: Duration) {
        self.listed_at = Some(now);
        self.watches.list(writers, taken);
        let (patience, mut begun) = (self.patience, None);
        let unwatched = |hole: &&mut Hole| hole.watch.is_none() && patience.is_over(hole, now);
        for hole in self.holes.values_mut().filter(unwatched) {
            hole.watch = Some(*begun.get_or_insert_with(|| self.watches.begin()));
        }
        self.holes.values_mut().for_each(|hole| hole.held = false);
        for position in held {
            let hole = self.holes.range_mut(..=*position).next_back();
            hole.into_iter().for_each(|(_, hole)| hole.held |= hole.last >= *position);
        }
    }

    /// Takes out the holes that are proven dead and were looked at as a whole.
    fn bury(&mut self, horizon: Option<u64>, seen_to: Position) -> Vec<(Position, Position)> {
        let watches = &self.watches;
        let proven = |first: Position, hole: &Hole| {
            let by_horizon = horizon.zip(hole.stamp).is_some_and(|(horizon, stamp)| horizon >= stamp);
            let by_writers = !hole.held && hole.watch.is_some_and(|watch| watches.is_over(watch, first));
            by_horizon || by_writers
        };
        let mut dead: Vec<(Position, Position)> = Vec::new();
        self.holes.retain(|first, hole| {
            if hole.last > seen_to || !proven(*first, hole) {
                return true;
            }
            match dead.last_mut() {
                Some((_, last)) if last.next() == *first => *last = hole.last,
                _ => dead.push((*first, hole.last)),
            }
            false
        });
        let watched: BTreeSet<u64> = self.holes.values().filter_map(|hole| hole.watch).collect();
        self.watches.keep(&watched);
        dead
    }

    /// Moves the frontier; what is neither done nor found below it is a hole from now on.
    fn notice(&mut self, found: &[Position], reached: Position, now: Duration) {
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
            self.holes.insert(first, Hole { last, noticed_at: now, stamp: None, watch: None, held: false });
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

    /// Whether the tail is among them.
    pub(super) fn reach_the_tail(&self) -> bool {
        self.up_to == END
    }
}

#[cfg(test)]
#[path = "holes_tests.rs"]
mod tests;
