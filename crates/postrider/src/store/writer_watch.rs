//! Which transactions could still fill a hole: the writers of one list, until they have ended.
//!
//! A listed writer is excluded in two cases. If it is not in a later list, it has ended. If it was idle from one list
//! to another, and the position was taken in between, another writer took the position. The second case matters for a
//! transaction that stays open for hours: otherwise it would keep the holes of all later rollbacks open.

use std::collections::{BTreeMap, BTreeSet};

use crate::Position;

/// The transactions that have the outbox open for writing, by name. If a transaction is idle (it waits for its
/// application), the value is its idle token, which changes as soon as the transaction does anything.
pub(super) type Writers = BTreeMap<String, Option<String>>;

/// The writers that holes wait for.
#[derive(Debug, Default)]
pub(super) struct WriterWatches {
    /// The writers of the last list.
    present: BTreeMap<String, Writer>,
    /// For each watch: the writers that were listed when it began and have not ended, each with the position above
    /// which it has taken none.
    open: BTreeMap<u64, BTreeMap<String, Position>>,
    /// The number of the last watch.
    last: u64,
}

#[derive(Debug)]
struct Writer {
    idle_token: Option<String>,
    /// It has taken no position above this one; the highest possible position if nothing is known.
    took_none_above: Position,
}

impl WriterWatches {
    /// Applies a list: writers that are not in it have ended. `assigned_up_to` was read after the list:
    /// higher positions were assigned later.
    pub(super) fn list(&mut self, writers: &Writers, assigned_up_to: Position) {
        let before = std::mem::take(&mut self.present);
        for (name, idle_token) in writers {
            let took_none_above = match (idle_token, before.get(name)) {
                (None, _) => Position::new(i64::MAX),
                // The earlier list may have come without a position.
                (Some(_), Some(writer)) if writer.idle_token == *idle_token => {
                    writer.took_none_above.min(assigned_up_to)
                }
                (Some(_), _) => assigned_up_to,
            };
            self.present.insert(name.clone(), Writer { idle_token: idle_token.clone(), took_none_above });
        }
        for watch in self.open.values_mut() {
            watch.retain(|name, _| self.present.contains_key(name));
        }
    }

    /// Begins a watch over all writers of the last list.
    pub(super) fn begin(&mut self) -> u64 {
        let watch = self.present.iter().map(|(name, writer)| (name.clone(), writer.took_none_above));
        self.last += 1;
        self.open.insert(self.last, watch.collect());
        self.last
    }

    /// Whether no writer of the watch can have taken this position or a higher one.
    pub(super) fn is_over(&self, watch: u64, position: Position) -> bool {
        let watch = self.open.get(&watch);
        watch.is_some_and(|writers| writers.values().all(|took_none_above| *took_none_above < position))
    }

    /// Removes all watches except these.
    pub(super) fn retain(&mut self, watched: &BTreeSet<u64>) {
        self.open.retain(|watch, _| watched.contains(watch));
    }
}
