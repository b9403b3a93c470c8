//! The events table: a position is taken at the insert and seen by others at the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use postrider::{Event, Limits, Position};

/// Names an open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionId(u64);

/// The events and the transactions that write them.
///
/// A position up to the sequence is visible, open, or empty: taken by a transaction that rolled back. So
/// late commits and holes exist here as they do on PostgreSQL.
#[derive(Debug, Clone, Default)]
pub struct Log {
    sequence: Position,
    visible: BTreeMap<Position, Arc<Event>>,
    open: BTreeMap<Position, TransactionId>,
    pending: BTreeMap<TransactionId, Vec<(Position, Arc<Event>)>>,
    transactions: u64,
    /// Committed rows that no event can be made of.
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

    /// Takes the next position for an event. `None` when the transaction is gone, and its connection with it.
    pub fn insert(&mut self, transaction: TransactionId, event: Event) -> Option<Position> {
        let rows = self.pending.get_mut(&transaction)?;
        self.sequence = self.sequence.next();
        rows.push((self.sequence, Arc::new(event)));
        self.open.insert(self.sequence, transaction);
        Some(self.sequence)
    }

    /// Makes the transaction's events visible, all at once. Says whether there was such a transaction.
    pub fn commit(&mut self, transaction: TransactionId) -> bool {
        let rows = self.pending.remove(&transaction);
        let known = rows.is_some();
        for (position, event) in rows.into_iter().flatten() {
            self.open.remove(&position);
            self.visible.insert(position, event);
        }
        known
    }

    /// Ends the transaction; its positions stay empty for ever.
    pub fn rollback(&mut self, transaction: TransactionId) {
        for (position, _) in self.pending.remove(&transaction).into_iter().flatten() {
            self.open.remove(&position);
        }
    }

    /// Removes a committed event; its position stays empty permanently.
    pub fn delete(&mut self, position: Position) {
        self.visible.remove(&position);
    }

    /// Makes a committed row one that no event can be made of.
    pub fn damage(&mut self, position: Position) {
        self.damaged.insert(position);
    }

    /// Whether no event can be made of the row at a position.
    pub fn is_damaged(&self, position: Position) -> bool {
        self.damaged.contains(&position)
    }

    /// Makes the next event take the position after this one. What is passed over stays empty permanently.
    pub fn skip_to(&mut self, position: Position) {
        self.sequence = self.sequence.max(position);
    }

    /// Changes a committed event, as an UPDATE would.
    pub fn change(&mut self, position: Position, change: impl FnOnce(&mut Event)) {
        if let Some(event) = self.visible.get_mut(&position) {
            change(Arc::make_mut(event));
        }
    }

    /// Whether a relay does not read the row at a position: no event can be made of it, or it is beyond the limits.
    pub fn is_unreadable(&self, position: Position) -> bool {
        let size =
            |event: &Arc<Event>| event.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let headers: usize = self.get(position).map_or(0, size);
        self.is_damaged(position) || headers > Limits::READ_HEADERS_BYTES_MAX
    }

    /// A transaction of one event.
    pub fn write(&mut self, event: Event) -> Position {
        let transaction = self.begin();
        let position = self.insert(transaction, event);
        self.commit(transaction);
        position.unwrap_or_default()
    }

    /// The log as a backup holds it: what is committed, and nothing of open transactions.
    #[must_use]
    pub fn backup(&self) -> Self {
        // The counter goes on, so that a transaction from before a restore is never taken for a new one.
        Self { open: BTreeMap::new(), pending: BTreeMap::new(), ..self.clone() }
    }

    /// Takes the place of this log; transactions open here are gone.
    pub fn restore(&mut self, backup: &Self) {
        let transactions = self.transactions;
        *self = backup.backup();
        self.transactions = transactions;
    }

    /// The last position taken.
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

    /// Positions of transactions that have not ended, ascending.
    pub fn open(&self) -> impl Iterator<Item = Position> {
        self.open.keys().copied()
    }

    /// Events of transactions that have not ended. Only a faulty reader reads them.
    pub fn uncommitted(&self) -> impl Iterator<Item = (Position, &Arc<Event>)> {
        self.pending.values().flatten().map(|(position, event)| (*position, event))
    }

    /// The parts of a range of positions that hold no event and never will.
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

    /// Whether the position was taken and its transaction rolled back.
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
