//! Parked rows as their owner knows them, so that a change by another process is noticed and never overwritten.

use std::collections::{BTreeMap, BTreeSet};

use super::ParkedRow;
use crate::store::{Epoch, Settlement};
use crate::{Position, Timestamp};

/// The parked rows of a subscription as its owner knows them: those it loaded with the lease, and what it has settled
/// since.
///
/// An operator may change such a row with SQL. A settle writes or removes a row only if it is still as it is known
/// here, so the operator's change stays. The next renewal reports the difference, and the owner loads everything
/// again (ADR 43). Kept in memory only: the next owner loads the rows from the database.
#[derive(Debug, Clone, Default)]
pub struct KnownRows {
    epoch: Epoch,
    rows: BTreeMap<Position, String>,
}

/// The columns of a row that decide what happens to its event, as one text that SQL can build too: state, attempts
/// and the microseconds of the next attempt. Keys and errors are not compared.
pub fn seal(row: &ParkedRow) -> String {
    let next = row.next_attempt_at.map(Timestamp::as_micros).map_or("-".to_owned(), |at| at.to_string());
    format!("{} {} {next}", row.state.as_str(), row.attempts)
}

/// Stands for any seal: the row is written whatever its state is now, because its owner did not load it.
pub const ANY: &str = "*";

impl KnownRows {
    /// All rows of a subscription, as loaded with a lease of this epoch.
    pub fn loaded<'a>(epoch: Epoch, rows: impl IntoIterator<Item = &'a ParkedRow>) -> Self {
        Self { epoch, rows: rows.into_iter().map(|row| (row.position, seal(row))).collect() }
    }

    /// How many rows to read, at most, to find out whether another process has changed one. `None` if the rows were not
    /// loaded with a lease of this epoch, as with a table with a state per row: nothing is known about them.
    pub fn rows_to_compare(&self, epoch: Epoch) -> Option<usize> {
        (self.epoch == epoch).then_some(self.rows.len() + 1)
    }

    /// The seal that a row must have for a settle with this epoch to write it; `None`: there must be no row. With
    /// another epoch nothing is known about the rows and any seal is accepted: the settle is fenced by its epoch, or
    /// its caller has loaded no rows.
    pub fn expected(&self, epoch: Epoch, position: Position) -> Option<&str> {
        if self.epoch == epoch { self.rows.get(&position).map(String::as_str) } else { Some(ANY) }
    }

    /// Whether another process has changed, added or removed a row since the owner of this epoch loaded or settled
    /// them.
    pub fn differ<T: AsRef<str>>(&self, epoch: Epoch, found: &[(Position, T)]) -> bool {
        let is_known = |(position, seal): &(Position, T)| {
            self.rows.get(position).is_some_and(|known| known.as_str() == seal.as_ref())
        };
        self.epoch == epoch && (found.len() != self.rows.len() || !found.iter().all(is_known))
    }

    /// Applies a change that was settled.
    pub fn settle(&mut self, change: SettledChange) {
        if self.epoch == change.epoch {
            change.removed.iter().for_each(|position| _ = self.rows.remove(position));
            self.rows.extend(change.written);
        }
    }
}

/// What a settlement does to the parked rows, to be applied once it is committed.
#[derive(Debug, Clone)]
pub struct SettledChange {
    epoch: Epoch,
    written: BTreeMap<Position, String>,
    removed: BTreeSet<Position>,
}

impl SettledChange {
    /// The change of a settlement. A row that is both removed and written is written.
    pub fn of(settlement: &Settlement) -> Self {
        let written = settlement.park.iter().map(|row| (row.position, seal(row))).collect();
        Self { epoch: settlement.epoch, written, removed: settlement.unpark.iter().copied().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::ParkedState;

    fn row(position: i64, attempts: u32) -> ParkedRow {
        ParkedRow {
            position: Position::new(position),
            key: None,
            destination: None,
            state: ParkedState::Retry,
            attempts,
            next_attempt_at: Some(Timestamp::from_micros(7)),
            last_error: None,
            redelivery: None,
        }
    }

    #[test]
    fn a_row_that_another_process_changed_differs() {
        let (ours, other) = (Epoch(3), Epoch(4));
        let mut known = KnownRows::loaded(ours, &[row(1, 0), row(2, 5)]);
        let found = |rows: &[ParkedRow]| rows.iter().map(|row| (row.position, seal(row))).collect::<Vec<_>>();
        assert!(!known.differ(ours, &found(&[row(1, 0), row(2, 5)])));
        assert!(known.differ(ours, &found(&[row(1, 0), row(2, 0)])));
        assert!(known.differ(ours, &found(&[row(1, 0)])));
        assert!(known.differ(ours, &found(&[row(1, 0), row(3, 5)])));
        assert!(known.differ(ours, &found(&[row(1, 0), row(2, 5), row(3, 5)])));
        assert!(!known.differ(other, &found(&[])));
        assert_eq!(known.expected(ours, Position::new(2)), Some("retry 5 7"));
        assert_eq!(known.expected(ours, Position::new(9)), None);
        assert_eq!(known.expected(other, Position::new(9)), Some(ANY));
        let written = BTreeMap::from([(Position::new(2), seal(&row(2, 6)))]);
        known.settle(SettledChange { epoch: ours, written, removed: BTreeSet::from([Position::new(1)]) });
        assert!(!known.differ(ours, &found(&[row(2, 6)])));
    }
}
