//! What a settlement means for the rows of a table: the plan that a dialect records in one transaction.

use std::collections::BTreeMap;

use super::load::encode_id;
use super::refused::Refused;
use super::term_rows::{HandoutState, TermRow, TermRows};
use crate::ledger::{ParkedRow, ParkedState, Trial};
use crate::store::Settlement;
use crate::{Position, Timestamp};

/// Rows with the same outcome, as one array per column.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutcomeRows {
    pub(crate) positions: Vec<Position>,
    pub(crate) ids: Vec<String>,
    /// When they were marked as being published, if they were.
    pub(crate) marked_at: Vec<Option<Timestamp>>,
    /// Their count of attempts when they were marked.
    pub(crate) marked_attempts: Vec<Option<i64>>,
    /// Their new count of attempts.
    pub(crate) attempts: Vec<i64>,
    pub(crate) next_attempt_at: Vec<Option<Timestamp>>,
}

impl OutcomeRows {
    pub(super) fn push(
        &mut self,
        position: Position,
        entry: &TermRow,
        attempts: u32,
        next_attempt_at: Option<Timestamp>,
    ) {
        self.positions.push(position);
        self.ids.push(entry.id.to_string());
        self.marked_at.push(entry.claim.map(|claim| claim.at));
        self.marked_attempts.push(entry.claim.map(|claim| claim.attempts));
        // The column is an `int`; a count at its maximum stays there.
        self.attempts.push(i64::from(attempts).min(i32::MAX.into()));
        self.next_attempt_at.push(next_attempt_at);
    }

    /// Splits off the second half.
    fn halve(&mut self) -> Self {
        let mut first = self.take(self.ids.len() / 2);
        std::mem::swap(self, &mut first);
        first
    }

    /// Splits off the first rows.
    pub(super) fn take(&mut self, rows: usize) -> Self {
        let at = rows.min(self.ids.len());
        Self {
            positions: self.positions.drain(..at).collect(),
            ids: self.ids.drain(..at).collect(),
            marked_at: self.marked_at.drain(..at).collect(),
            marked_attempts: self.marked_attempts.drain(..at).collect(),
            attempts: self.attempts.drain(..at).collect(),
            next_attempt_at: self.next_attempt_at.drain(..at).collect(),
        }
    }

    /// The row, if there is exactly one.
    pub(super) fn only(&self) -> Option<(Position, &str)> {
        match (self.positions.as_slice(), self.ids.as_slice()) {
            ([position], [id]) => Some((*position, id)),
            _ => None,
        }
    }
}

/// A note to write.
#[derive(Debug, Clone)]
pub(crate) struct Note {
    pub(crate) id: String,
    pub(crate) key: Option<String>,
    pub(crate) destination: Option<String>,
    pub(crate) state: &'static str,
    pub(crate) attempts: u32,
    pub(crate) next_attempt_at: Option<Timestamp>,
    pub(crate) last_error: Option<String>,
    /// What the table refused to record.
    pub(crate) refused: Option<Refused>,
}

impl Note {
    /// The note of a delivered row whose table refused to record the delivery. It prevents another delivery.
    pub(super) fn refused_delivery(id: &str, last_error: String) -> Self {
        Self {
            id: id.to_owned(),
            key: None,
            destination: None,
            state: ParkedState::Dead.as_str(),
            attempts: 0,
            next_attempt_at: None,
            last_error: Some(last_error),
            refused: Some(Refused::Delivered),
        }
    }

    fn of(entry: &TermRow, row: &ParkedRow, attempts: u32) -> Self {
        Self {
            id: entry.id.to_string(),
            key: row.key.clone(),
            destination: row.destination.clone(),
            state: row.state.as_str(),
            attempts,
            next_attempt_at: row.next_attempt_at,
            last_error: row.last_error.clone(),
            refused: None,
        }
    }
}

/// What a settlement means for the rows of the table.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettlePlan {
    pub(crate) done: OutcomeRows,
    pub(crate) retried: OutcomeRows,
    pub(crate) given_up: OutcomeRows,
    /// The table records that a row has expired.
    pub(super) records_expiry: bool,
    /// Rows that are given up and recorded as expired, so that they need no note.
    pub(super) expired: Vec<Position>,
    /// Unrouted rows: given up in the table, but the relay still waits for a route.
    pub(super) unrouted: Vec<Position>,
    /// Rows that wait, and whose mark is removed until they are handed out again.
    pub(crate) unmarked: OutcomeRows,
    /// Rows that wait, marked or not.
    pub(super) parked: Vec<Position>,
    /// Rows that wait and stay marked.
    pub(super) still_marked: Vec<Position>,
    /// Rows whose outcome the table refuses to record.
    pub(super) refused: Vec<Position>,
    /// Rows that another process settled.
    pub(super) taken: Vec<Position>,
    pub(crate) notes: Vec<Note>,
    /// Ids of rows whose notes are deleted.
    pub(crate) obsolete_notes: Vec<String>,
    /// Claims that have no row left.
    pub(crate) finished_claims: Vec<i64>,
    /// Ids of the rows on trial.
    pub(crate) trial: Option<String>,
    pub(crate) trial_deaths: u32,
}

impl SettlePlan {
    pub(crate) fn of(settlement: &Settlement, known: &TermRows) -> Self {
        let mut plan = Self {
            trial: settlement.trial.as_ref().map(|trial| trial_ids(trial, known)),
            trial_deaths: settlement.trial.as_ref().map_or(0, |trial| trial.deaths),
            records_expiry: known.records_expiry,
            ..Self::default()
        };
        let park: BTreeMap<Position, &ParkedRow> =
            settlement.park.iter().map(|row| (row.position, row)).collect();
        for (position, row) in &park {
            if let Some(entry) = known.get(*position) {
                plan.park(*position, entry, row);
            }
        }
        let unparked = settlement.unpark.iter().filter(|position| !park.contains_key(position));
        for position in unparked {
            if let Some(entry) = known.get(*position) {
                plan.finish(*position, entry);
            }
        }
        for (position, entry) in known.in_flight() {
            if settlement.done.contains(position) && !park.contains_key(&position) {
                plan.finish(position, entry);
            }
        }
        plan.finished_claims = known.claims_finished_by(&plan.leaving());
        plan
    }

    /// The rows that the plan changes: done, retried, given up, unmarked.
    pub(crate) fn outcomes(&self) -> [&OutcomeRows; 4] {
        [&self.done, &self.retried, &self.given_up, &self.unmarked]
    }

    /// Rows that have no mark of this term once the plan is recorded.
    pub(super) fn leaving(&self) -> Vec<Position> {
        let changed = self.outcomes().into_iter().flat_map(|outcome| &outcome.positions);
        changed.chain(&self.taken).chain(&self.refused).copied().collect()
    }

    fn finish(&mut self, position: Position, entry: &TermRow) {
        if entry.is_noted {
            self.obsolete_notes.push(entry.id.to_string());
        }
        match entry.state {
            HandoutState::Taken => self.taken.push(position),
            _ => self.done.push(position, entry, 0, None),
        }
    }

    fn park(&mut self, position: Position, entry: &TermRow, row: &ParkedRow) {
        if entry.state == HandoutState::Taken {
            self.taken.push(position);
            return;
        }
        let tried = entry.attempts_before.saturating_add(row.attempts);
        match row.state {
            ParkedState::Retry => {
                // The table treats a row at its limit as given up.
                let kept = tried.min(entry.limit.saturating_sub(1)).max(1);
                self.retried.push(position, entry, kept, row.next_attempt_at);
                self.notes.push(Note::of(entry, row, tried));
            }
            // Its row records that it expired, and nothing else is known about it.
            ParkedState::Expired if self.records_expiry => {
                self.given_up.push(position, entry, tried, None);
                self.expired.push(position);
                if entry.is_noted {
                    self.obsolete_notes.push(entry.id.to_string());
                }
            }
            ParkedState::Dead if self.records_expiry => {
                self.given_up.push(position, entry, tried, None);
                self.notes.push(Note::of(entry, row, tried));
            }
            ParkedState::Dead | ParkedState::Expired => {
                self.given_up.push(position, entry, tried.max(entry.limit), None);
                self.notes.push(Note::of(entry, row, tried));
            }
            ParkedState::Unrouted => {
                self.given_up.push(position, entry, tried.max(entry.limit), None);
                self.unrouted.push(position);
                self.notes.push(Note::of(entry, row, tried));
            }
            ParkedState::Behind | ParkedState::Held => {
                if row.state == ParkedState::Held {
                    self.notes.push(Note::of(entry, row, tried));
                }
                // The row must not stay given up in the table: after a crash, the next owner would not retry it.
                if entry.is_given_up {
                    self.retried.push(position, entry, tried.min(entry.limit.saturating_sub(1)), None);
                    return;
                }
                // A row that is handed out again by now keeps its mark.
                if entry.state != HandoutState::Refetched {
                    self.parked.push(position);
                    if entry.claim.is_some() {
                        self.unmarked.push(position, entry, 0, None);
                    }
                }
            }
        }
    }

    /// Splits off half of the deliveries, if there are at least `from` and they need not be in one transaction with
    /// the rest: no delivered row has a mark or a note.
    pub(crate) fn halve(&mut self, from: usize) -> Option<OutcomeRows> {
        let is_unmarked = self.obsolete_notes.is_empty() && self.done.marked_at.iter().all(Option::is_none);
        (is_unmarked && self.done.ids.len() >= from).then(|| self.done.halve())
    }

    /// How many rows the plan changes.
    pub(crate) fn rows(&self) -> usize {
        self.outcomes().iter().map(|outcome| outcome.ids.len()).sum()
    }

    /// The delivered rows to note for retention, after `changed` rows were changed. None if that is fewer than planned:
    /// then another publisher changed some of them, and it is not known which.
    pub(crate) fn deliveries_to_note(&self, changed: Option<usize>) -> &[String] {
        if changed == Some(self.rows()) { &self.done.ids } else { &[] }
    }

    /// Updates the term after the plan is recorded.
    pub(crate) fn apply(self, known: &mut TermRows) {
        let noted: Vec<Position> = self.notes.iter().filter_map(|note| known.position_of(&note.id)).collect();
        for position in noted {
            known.change(position, |row| row.is_noted = true);
        }
        let ended = self.done.positions.iter().chain(&self.taken).chain(&self.expired);
        ended.for_each(|position| known.remove(*position));
        for position in self.retried.positions.iter().chain(&self.parked).chain(&self.unrouted) {
            known.change(*position, |row| (row.state, row.claim) = (HandoutState::Parked, None));
        }
        for position in &self.retried.positions {
            known.change(*position, |row| row.is_given_up = false);
        }
        for position in &self.given_up.positions {
            known.change(*position, |row| row.is_given_up = true);
        }
        for position in &self.still_marked {
            known.change(*position, |row| row.state = HandoutState::Parked);
        }
        for position in &self.refused {
            known.change(*position, |row| (row.state, row.claim) = (HandoutState::Refused, None));
        }
        for position in self.given_up.positions.iter().filter(|position| !self.unrouted.contains(position)) {
            known.change(*position, |row| (row.state, row.claim) = (HandoutState::GivenUp, None));
        }
    }
}

/// Logs if fewer rows were changed than planned.
pub(crate) fn log_not_updated(subscription: &str, missed: usize) {
    if missed > 0 {
        tracing::warn!(
            subscription,
            rows = missed,
            "another process changed rows while they were published here; they were not updated"
        );
    }
}

/// The ids of the rows on trial, separated by spaces.
fn trial_ids(trial: &Trial, known: &TermRows) -> String {
    let rows = trial.positions.iter().filter_map(|position| known.get(*position));
    rows.map(|entry| encode_id(&entry.id)).collect::<Vec<_>>().join(" ")
}
