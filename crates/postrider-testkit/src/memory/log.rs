//! The table of events: a position is assigned at the INSERT and becomes visible at the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use postrider::{Event, Limits, Position};

/// Identifies an open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionId(u64);

/// The events and the transactions that write them.
///
/// A position up to the sequence is visible, belongs to an open transaction, or is empty because its transaction rolled
/// back. Late commits and holes therefore occur as on PostgreSQL.
#[derive(Debug, Clone, Default)]
pub struct Log {
    sequence: Position,
    visible: BTreeMap<Position, Arc<Event>>,
    open: BTreeMap<Position, TransactionId>,
    pending: BTreeMap<TransactionId, Vec<(Position, Arc<Event>)>>,
    transactions: u64,
    /// Committed rows that cannot be converted to an event.
    damaged: BTreeSet<Position>,
}

impl Log {
    /// Opens a transaction.
    pub fn begin(&mut self) -> TransactionId {
        self.transactions += 1;
        let id = TransactionId(self.transactions);
        self.pending.insert(id, Vec::new());
        id
    }

    /// Assigns the next position to an event. `None` if the transaction no longer exists.
    pub fn insert(&mut self, transaction: TransactionId, event: Event) -> Option<Position> {
        let rows = self.pending.get_mut(&transaction)?;
        self.sequence = self.sequence.next();
        rows.push((self.sequence, Arc::new(event)));
        self.open.insert(self.sequence, transaction);
        Some(self.sequence)
    }

    /// Commits: all events of the transaction become visible. Returns whether the transaction existed.
    pub fn commit(&mut self, transaction: TransactionId) -> bool {
        let rows = self.pending.remove(&transaction);
        let known = rows.is_some();
        for (position, event) in rows.into_iter().flatten() {
            self.open.remove(&position);
            self.visible.insert(position, event);
        }
        known
    }

    /// Rolls back: the positions of the transaction stay empty permanently.
    pub fn rollback(&mut self, transaction: TransactionId) {
        for (position, _) in self.pending.remove(&transaction).into_iter().flatten() {
            self.open.remove(&position);
        }
    }

    /// Removes a committed event; its position stays empty permanently.
    pub fn delete(&mut self, position: Position) {
        self.visible.remove(&position);
    }

    /// Damages a committed row, so that it cannot be converted to an event.
    pub fn damage(&mut self, position: Position) {
        self.damaged.insert(position);
    }

    /// Whether the row at a position is damaged.
    pub fn is_damaged(&self, position: Position) -> bool {
        self.damaged.contains(&position)
    }

    /// Moves the sequence to this position. Skipped positions stay empty permanently.
    pub fn skip_to(&mut self, position: Position) {
        self.sequence = self.sequence.max(position);
    }

    /// Changes a committed event, as an UPDATE would.
    pub fn change(&mut self, position: Position, change: impl FnOnce(&mut Event)) {
        if let Some(event) = self.visible.get_mut(&position) {
            change(Arc::make_mut(event));
        }
    }

    /// Whether a relay cannot read the row at a position: it is damaged, or exceeds the limits.
    pub fn is_unreadable(&self, position: Position) -> bool {
        let size =
            |event: &Arc<Event>| event.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let headers: usize = self.get(position).map_or(0, size);
        self.is_damaged(position) || headers > Limits::READ_HEADERS_BYTES_MAX
    }

    /// Writes one event in its own transaction.
    pub fn write(&mut self, event: Event) -> Position {
        let transaction = self.begin();
        let position = self.insert(transaction, event);
        self.commit(transaction);
        position.unwrap_or_default()
    }

    /// A backup of the log: committed events, without open transactions.
    #[must_use]
    pub fn backup(&self) -> Self {
        // The counter continues, so that a transaction from before a restore is never mistaken for a new one.
        Self { open: BTreeMap::new(), pending: BTreeMap::new(), ..self.clone() }
    }

    /// Replaces this log with a backup. Open transactions are aborted.
    pub fn restore(&mut self, backup: &Self) {
        let transactions = self.transactions;
        *self = backup.backup();
        self.transactions = transactions;
    }

    /// The last assigned position.
    pub fn sequence(&self) -> Position {
        self.sequence
    }

    /// The event at a position, if it is committed.
    pub fn get(&self, position: Position) -> Option<&Arc<Event>> {
        self.visible.get(&position)
    }

    /// Committed events in a range of positions, ascending.
    pub fn range(&self, range: RangeInclusive<Position>) -> impl Iterator<Item = (Position, &Arc<Event>)> {
        self.visible.range(range).map(|(position, event)| (*position, event))
    }

    /// All committed events, ascending.
    pub fn visible(&self) -> impl DoubleEndedIterator<Item = (Position, &Arc<Event>)> {
        self.visible.iter().map(|(position, event)| (*position, event))
    }

    /// Positions of open transactions, ascending.
    pub fn open(&self) -> impl Iterator<Item = Position> {
        self.open.keys().copied()
    }

    /// Events of open transactions, which a correct reader never reads.
    pub fn uncommitted(&self) -> impl Iterator<Item = (Position, &Arc<Event>)> {
        self.pending.values().flatten().map(|(position, event)| (*position, event))
    }

    /// The parts of a range that have no event and never will.
    pub fn empty_within(&self, start: Position, end: Position) -> Vec<(Position, Position)> {
        let (visible, open) = (self.visible.range(start..=end), self.open.range(start..=end));
        let taken: BTreeSet<Position> =
            visible.map(|(position, _)| *position).chain(open.map(|(position, _)| *position)).collect();
        let (mut empty, mut next) = (Vec::new(), Some(start));
        for position in taken {
            empty.extend(next.map(|first| (first, position.previous())));
            next = position.checked_next();
        }
        empty.extend(next.map(|first| (first, end.min(self.sequence))));
        empty.retain(|(first, last)| first <= last);
        empty
    }

    /// Whether the position was assigned and its transaction rolled back.
    pub fn is_empty_at(&self, position: Position) -> bool {
        position <= self.sequence
            && !self.visible.contains_key(&position)
            && !self.open.contains_key(&position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Event {
        Event::new("thing.happened", "{}")
    }

    #[test]
    fn a_position_is_taken_at_the_insert_and_visible_at_the_commit() {
        let mut log = Log::default();
        let (early, late) = (log.begin(), log.begin());
        assert_eq!(log.insert(early, event()), Some(Position::new(1)));
        assert_eq!(log.insert(late, event()), Some(Position::new(2)));
        assert!(log.commit(late));
        assert_eq!(log.visible().map(|(p, _)| p.get()).collect::<Vec<_>>(), [2]);
        assert!(!log.is_empty_at(Position::new(1)));
        log.rollback(early);
        assert!(log.is_empty_at(Position::new(1)));
    }

    #[test]
    fn a_restore_aborts_open_transactions() {
        let mut log = Log::default();
        log.write(event());
        let backup = log.backup();
        let lost = log.begin();
        log.insert(lost, event());
        log.restore(&backup);
        assert_eq!(log.sequence(), Position::new(1));
        assert_eq!(log.insert(lost, event()), None);
        assert!(!log.commit(lost));
    }
}
