//! What a settlement means for the rows of a table: the plan that a dialect records in one transaction.

use std::collections::BTreeMap;

use super::refused::Refused;
use super::session_rows::{HandoutState, SessionRow, SessionRows};
use crate::ledger::{ParkedRow, ParkedState, Trial};
use crate::store::Settlement;
use crate::{Position, Timestamp};

/// Rows with the same outcome, as one array per column.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutcomeRows {
    pub(crate) positions: Vec<Position>,
    pub(crate) ids: Vec<String>,
    /// When they were marked as being published, if they were.
    pub(crate) stamps: Vec<Option<Timestamp>>,
    /// Their count of attempts when they were marked.
    pub(crate) marked: Vec<Option<i64>>,
    /// Their new count of attempts.
    pub(crate) attempts: Vec<i64>,
    pub(crate) next: Vec<Option<Timestamp>>,
}

impl OutcomeRows {
    fn push(&mut self, position: Position, entry: &SessionRow, attempts: u32, next: Option<Timestamp>) {
        self.positions.push(position);
        self.ids.push(entry.id.to_string());
        self.stamps.push(entry.claim.map(|claim| claim.at));
        self.marked.push(entry.claim.map(|claim| claim.attempts));
        // The column is an `int`; a count at its maximum stays there.
        self.attempts.push(i64::from(attempts).min(i32::MAX.into()));
        self.next.push(next);
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
            stamps: self.stamps.drain(..at).collect(),
            marked: self.marked.drain(..at).collect(),
            attempts: self.attempts.drain(..at).collect(),
            next: self.next.drain(..at).collect(),
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
    /// The note of a row that was delivered, if the table refused to record that. It prevents another delivery.
    pub(super) fn refused_done(id: &str, last_error: String) -> Self {
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

    fn of(entry: &SessionRow, row: &ParkedRow, attempts: u32) -> Self {
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
    pub(crate) ended: OutcomeRows,
    /// Unrouted rows: given up in the table, but the relay still waits for a route.
    pub(super) unrouted: Vec<Position>,
    /// Rows that wait, and whose mark is taken off meanwhile.
    pub(crate) returned: OutcomeRows,
    /// Rows that wait, marked or not.
    pub(super) parked: Vec<Position>,
    /// Rows that wait and stay marked.
    pub(super) kept: Vec<Position>,
    /// Rows whose outcome the table refuses to record.
    pub(super) refused: Vec<Position>,
    /// Rows that another process settled.
    pub(super) taken: Vec<Position>,
    pub(crate) notes: Vec<Note>,
    pub(crate) forgotten: Vec<String>,
    pub(crate) claims_over: Vec<i64>,
    /// Ids of the rows on trial.
    pub(crate) trial: Option<String>,
    pub(crate) trial_deaths: u32,
}

impl SettlePlan {
    pub(crate) fn of(settlement: &Settlement, known: &SessionRows) -> Self {
        let mut plan = Self {
            trial: settlement.trial.as_ref().map(|trial| words(trial, known)),
            trial_deaths: settlement.trial.as_ref().map_or(0, |trial| trial.deaths),
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
        for (position, entry) in known.out() {
            if settlement.done.contains(position) && !park.contains_key(&position) {
                plan.finish(position, entry);
            }
        }
        plan.claims_over = known.claims_over(&plan.leaving());
        plan
    }

    /// Rows that have no mark of this session once the plan is recorded.
    pub(super) fn leaving(&self) -> Vec<Position> {
        let outcomes = [&self.done, &self.retried, &self.ended, &self.returned];
        let changed = outcomes.iter().flat_map(|outcome| &outcome.positions);
        changed.chain(&self.taken).chain(&self.refused).copied().collect()
    }

    fn finish(&mut self, position: Position, entry: &SessionRow) {
        if entry.is_noted {
            self.forgotten.push(entry.id.to_string());
        }
        match entry.stage {
            HandoutState::Taken => self.taken.push(position),
            _ => self.done.push(position, entry, 0, None),
        }
    }

    fn park(&mut self, position: Position, entry: &SessionRow, row: &ParkedRow) {
        if entry.stage == HandoutState::Taken {
            self.taken.push(position);
            return;
        }
        let tried = entry.tried_before.saturating_add(row.attempts);
        match row.state {
            ParkedState::Retry => {
                // The table treats a row at its limit as given up.
                let kept = tried.min(entry.limit.saturating_sub(1)).max(1);
                self.retried.push(position, entry, kept, row.next_attempt_at);
                self.notes.push(Note::of(entry, row, tried));
            }
            ParkedState::Dead | ParkedState::Expired => {
                self.ended.push(position, entry, tried.max(entry.limit), None);
                self.notes.push(Note::of(entry, row, tried));
            }
            ParkedState::Unrouted => {
                self.ended.push(position, entry, tried.max(entry.limit), None);
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
                if entry.stage != HandoutState::Recalled {
                    self.parked.push(position);
                    if entry.claim.is_some() {
                        self.returned.push(position, entry, 0, None);
                    }
                }
            }
        }
    }

    /// Splits off half of the deliveries, if there are at least `from` and they need not be in one transaction with
    /// the rest: no delivered row has a mark or a note.
    pub(crate) fn halve(&mut self, from: usize) -> Option<OutcomeRows> {
        let is_bare = self.forgotten.is_empty() && self.done.stamps.iter().all(Option::is_none);
        (is_bare && self.done.ids.len() >= from).then(|| self.done.halve())
    }

    /// How many rows the plan changes.
    pub(crate) fn rows(&self) -> usize {
        [&self.done, &self.retried, &self.ended, &self.returned].iter().map(|outcome| outcome.ids.len()).sum()
    }

    /// Updates the session after the plan is recorded.
    pub(crate) fn enter(self, known: &mut SessionRows) {
        let noted: Vec<Position> = self.notes.iter().filter_map(|note| known.position_of(&note.id)).collect();
        for position in noted {
            known.change(position, |row| row.is_noted = true);
        }
        self.done.positions.iter().chain(&self.taken).for_each(|position| known.remove(*position));
        for position in self.retried.positions.iter().chain(&self.parked).chain(&self.unrouted) {
            known.change(*position, |row| (row.stage, row.claim) = (HandoutState::Parked, None));
        }
        for position in &self.retried.positions {
            known.change(*position, |row| row.is_given_up = false);
        }
        for position in &self.ended.positions {
            known.change(*position, |row| row.is_given_up = true);
        }
        for position in &self.kept {
            known.change(*position, |row| row.stage = HandoutState::Parked);
        }
        for position in &self.refused {
            known.change(*position, |row| (row.stage, row.claim) = (HandoutState::Refused, None));
        }
        for position in self.ended.positions.iter().filter(|position| !self.unrouted.contains(position)) {
            known.change(*position, |row| (row.stage, row.claim) = (HandoutState::Ended, None));
        }
    }
}

/// Logs if fewer rows were changed than planned.
pub(crate) fn log_missed(subscription: &str, missed: usize) {
    if missed > 0 {
        tracing::warn!(
            subscription,
            rows = missed,
            "another process changed rows while they were published here; they were not updated"
        );
    }
}

/// A row id as one word of a list separated by spaces.
pub(crate) fn trial_word(id: &str) -> String {
    let escaped = |c: char| c.is_ascii_whitespace() || c == '%';
    let word: String = id
        .chars()
        .map(|c| if escaped(c) { format!("%{:02X}", u32::from(c)) } else { c.to_string() })
        .collect();
    if word.is_empty() { "%".to_owned() } else { word }
}

/// The rows of a trial by their ids.
fn words(trial: &Trial, known: &SessionRows) -> String {
    let rows = trial.positions.iter().filter_map(|position| known.get(*position));
    rows.map(|entry| trial_word(&entry.id)).collect::<Vec<_>>().join(" ")
}
