//! Who could still fill a hole: the writers of one list, until they are gone.
//!
//! A writer of the list is out of question in two ways. It is not in a later list: it is over. Or it did
//! nothing between two lists, and the position was taken in between: another took it. The second matters for
//! a transaction that stays open for hours; without it, it would keep the holes of everybody else's rollbacks
//! alive.

use std::collections::{BTreeMap, BTreeSet};

use crate::Position;

/// Who has the outbox open for writing, by name. With it, if the writer waits for its application: a word that
/// changes as soon as it does anything.
pub(super) type Writers = BTreeMap<String, Option<String>>;

/// All writers that some hole waits for.
#[derive(Debug, Default)]
pub(super) struct WriterWatches {
    /// The writers of the last list.
    present: BTreeMap<String, Writer>,
    /// The writers that were there when a watch began and are not gone, each with the position above which
    /// it took none.
    open: BTreeMap<u64, BTreeMap<String, Position>>,
    last: u64,
}

#[derive(Debug)]
struct Writer {
    quiet: Option<String>,
    /// It took no position above this one. The highest there can be, if nothing is known.
    took_none_above: Position,
}

impl WriterWatches {
    /// Crosses out who is gone. `taken` is a position read after the list: higher ones were taken later.
    pub(super) fn list(&mut self, writers: &Writers, taken: Position) {
        let before = std::mem::take(&mut self.present);
        for (name, quiet) in writers {
            let took_none_above = match (quiet, before.get(name)) {
                (None, _) => Position::new(i64::MAX),
                // A counter that was not told then may be told now.
                (Some(_), Some(writer)) if writer.quiet == *quiet => writer.took_none_above.min(taken),
                (Some(_), _) => taken,
            };
            self.present.insert(name.clone(), Writer { quiet: quiet.clone(), took_none_above });
        }
        for watch in self.open.values_mut() {
            watch.retain(|name, _| self.present.contains_key(name));
        }
    }

    /// Begins a watch over everybody in the last list.
    pub(super) fn begin(&mut self) -> u64 {
        let watch = self.present.iter().map(|(name, writer)| (name.clone(), writer.took_none_above));
        self.last += 1;
        self.open.insert(self.last, watch.collect());
        self.last
    }

    /// Whether no writer of the watch can have taken the position, or one above it.
    pub(super) fn is_over(&self, watch: u64, position: Position) -> bool {
        let watch = self.open.get(&watch);
        watch.is_some_and(|writers| writers.values().all(|took_none_above| *took_none_above < position))
    }

    /// Forgets all watches but these.
    pub(super) fn keep(&mut self, watched: &BTreeSet<u64>) {
        self.open.retain(|watch, _| watched.contains(watch));
    }
}
