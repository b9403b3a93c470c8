//! The rows of one term: which were handed out, and under which position, until they are settled. A term is one
//! ownership of the lease; its rows are in memory only, and the next owner loads its own from the table.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::store::Epoch;
use crate::{Position, Timestamp};

/// A row's id as text.
pub(crate) type RowId = Arc<str>;

/// The rows that were marked or locked, each with its mark.
pub(crate) type Claims = HashMap<RowId, RowClaim>;

/// All rows that a term knows. Positions are numbered from 1 in the order in which rows are handed out, and are
/// valid only in this term.
#[derive(Debug)]
pub(crate) struct TermRows {
    pub(crate) epoch: Epoch,
    rows: BTreeMap<Position, TermRow>,
    by_id: HashMap<RowId, Position>,
    last: Position,
    /// Rows of each claim that are not settled.
    claims: HashMap<i64, usize>,
    /// Rows whose outcome the table has refused to record in this term.
    pub(crate) refused: usize,
    /// The table records that a row has expired, so that it needs no note: layout `eventlog`.
    pub(crate) records_expiry: bool,
    /// How often operators had changed rows when they were loaded.
    pub(crate) changes: i64,
}

/// One row.
#[derive(Debug, Clone)]
pub(crate) struct TermRow {
    pub(crate) id: RowId,
    pub(crate) state: HandoutState,
    /// Postrider has a note about it.
    pub(crate) is_noted: bool,
    /// Failed attempts before this term, which the brain does not count.
    pub(crate) attempts_before: u32,
    /// Attempts after which the row is given up.
    pub(crate) limit: u32,
    /// The table shows it as given up. A row that waits for a route is shown like that, too.
    pub(crate) is_given_up: bool,
    /// The mark with which this term owns the row, if it has one.
    pub(crate) claim: Option<RowClaim>,
}

/// When a row was marked as being published, and in which batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowClaim {
    pub(crate) at: Timestamp,
    pub(crate) number: i64,
    /// The row's count of attempts after it was marked. Where times are whole seconds, the time alone does not
    /// identify a mark.
    pub(crate) attempts: i64,
}

/// Where a row is between table and relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandoutState {
    /// Reserved for the first claim: it was on trial when the last owner died.
    Reserved,
    /// Handed out.
    HandedOut,
    /// Parked, and not handed out.
    Parked,
    /// Parked, and handed out again.
    Refetched,
    /// Given up. If an operator makes it due again in the table, it is handed out again.
    GivenUp,
    /// Another process has settled it.
    Taken,
    /// Done, but the table refused the update that records it.
    Refused,
}

impl TermRow {
    /// A row without a note, a mark or an earlier attempt.
    pub(crate) fn new(id: impl Into<RowId>, state: HandoutState, limit: u32) -> Self {
        Self {
            id: id.into(),
            state,
            is_noted: false,
            attempts_before: 0,
            limit,
            is_given_up: false,
            claim: None,
        }
    }
}

impl TermRows {
    pub(crate) fn new(epoch: Epoch) -> Self {
        Self {
            epoch,
            rows: BTreeMap::new(),
            by_id: HashMap::new(),
            last: Position::ZERO,
            claims: HashMap::new(),
            refused: 0,
            records_expiry: false,
            changes: 0,
        }
    }

    /// How many rows it knows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The last position assigned.
    pub(crate) fn last(&self) -> Position {
        self.last
    }

    pub(crate) fn get(&self, position: Position) -> Option<&TermRow> {
        self.rows.get(&position)
    }

    pub(crate) fn position_of(&self, id: &str) -> Option<Position> {
        self.by_id.get(id).copied()
    }

    /// Whether a claim must not hand the row out.
    pub(crate) fn is_excluded(&self, id: &str) -> bool {
        let entry = self.by_id.get(id).and_then(|position| self.rows.get(position));
        entry.is_some_and(|entry| !matches!(entry.state, HandoutState::Reserved | HandoutState::GivenUp))
    }

    /// Rows that are handed out to the relay.
    pub(crate) fn handed_out(&self) -> HashSet<RowId> {
        let handed_out =
            |entry: &&TermRow| matches!(entry.state, HandoutState::HandedOut | HandoutState::Refetched);
        self.rows.values().filter(handed_out).map(|entry| entry.id.clone()).collect()
    }

    /// Rows reserved for the first claim, in their order.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = RowId> {
        self.rows.values().filter(|entry| entry.state == HandoutState::Reserved).map(|entry| entry.id.clone())
    }

    /// Adds a row under the position it has, or under the next one if it has none. A row that was given up gets a new
    /// position. Returns the position.
    pub(crate) fn insert(&mut self, mut entry: TermRow) -> Position {
        let known = self.position_of(&entry.id);
        if let Some(given_up) =
            known.filter(|at| self.rows.get(at).is_some_and(|row| row.state == HandoutState::GivenUp))
        {
            self.remove(given_up);
            entry.is_noted = true;
        }
        let position = self.position_of(&entry.id).unwrap_or_else(|| self.last.next());
        self.last = self.last.max(position);
        self.by_id.insert(entry.id.clone(), position);
        if let Some(claim) = entry.claim {
            *self.claims.entry(claim.number).or_default() += 1;
        }
        self.rows.insert(position, entry);
        position
    }

    /// Changes what is known about a row.
    pub(crate) fn change(&mut self, position: Position, change: impl FnOnce(&mut TermRow)) {
        let Some(entry) = self.rows.get_mut(&position) else { return };
        let before = entry.claim.map(|claim| claim.number);
        change(entry);
        let after = entry.claim.map(|claim| claim.number);
        if before != after {
            before.into_iter().for_each(|number| self.drop_claim(number));
            after.into_iter().for_each(|number| *self.claims.entry(number).or_default() += 1);
        }
    }

    /// Forgets a row.
    pub(crate) fn remove(&mut self, position: Position) {
        let Some(entry) = self.rows.remove(&position) else { return };
        self.by_id.remove(&entry.id);
        if let Some(claim) = entry.claim {
            self.drop_claim(claim.number);
        }
    }

    /// Rows that were handed out by a claim and are not parked.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = (Position, &TermRow)> {
        self.rows
            .iter()
            .filter(|(_, entry)| entry.state == HandoutState::HandedOut)
            .map(|(at, entry)| (*at, entry))
    }

    /// The claims that have no row left once these rows have no mark any more.
    pub(crate) fn claims_finished_by(&self, leaving: &[Position]) -> Vec<i64> {
        let mut count: HashMap<i64, usize> = HashMap::new();
        for claim in leaving.iter().filter_map(|at| self.rows.get(at)?.claim) {
            *count.entry(claim.number).or_default() += 1;
        }
        count
            .into_iter()
            .filter(|(number, n)| self.claims.get(number) == Some(n))
            .map(|(number, _)| number)
            .collect()
    }

    /// Claims that still have rows.
    pub(crate) fn open_claims(&self) -> HashSet<i64> {
        self.claims.keys().copied().collect()
    }

    fn drop_claim(&mut self, number: i64) {
        if let Some(rows) = self.claims.get_mut(&number) {
            *rows -= 1;
            if *rows == 0 {
                self.claims.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: &str, claim: Option<i64>) -> TermRow {
        let at = Timestamp::from_micros(7);
        let claim = claim.map(|number| RowClaim { at, number, attempts: 1 });
        TermRow { claim, ..TermRow::new(id, HandoutState::HandedOut, 3) }
    }

    #[test]
    fn rows_get_growing_positions_and_keep_them() {
        let mut known = TermRows::new(Epoch(1));
        let first = known.insert(TermRow { state: HandoutState::Reserved, ..entry("b", None) });
        assert!(!known.is_excluded("b"));
        let second = known.insert(entry("a", None));
        assert!(first < second);
        assert_eq!(known.insert(entry("b", None)), first);
        assert!(known.is_excluded("b") && known.len() == 2);
        known.remove(first);
        assert_eq!((known.position_of("b"), known.last()), (None, second));
    }

    #[test]
    fn a_row_that_was_given_up_and_is_due_again_gets_a_new_position() {
        let mut known = TermRows::new(Epoch(1));
        let first = known.insert(TermRow { state: HandoutState::GivenUp, ..entry("a", None) });
        assert!(!known.is_excluded("a"));
        let again = known.insert(entry("a", None));
        assert!(again > first && known.get(again).unwrap().is_noted && known.get(first).is_none());
    }

    #[test]
    fn a_claim_is_finished_with_its_last_row() {
        let mut known = TermRows::new(Epoch(1));
        let rows: Vec<Position> = ["a", "b", "c"].map(|id| known.insert(entry(id, Some(5)))).to_vec();
        assert!(known.claims_finished_by(&rows[..2]).is_empty());
        assert_eq!(known.claims_finished_by(&rows), [5]);
        known.remove(rows[0]);
        known.change(rows[1], |row| row.claim = None);
        assert_eq!(known.claims_finished_by(&rows[2..]), [5]);
    }
}
