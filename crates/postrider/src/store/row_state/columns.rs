//! Reads the rows of Postrider's tables for a table with a state per row. The statements of every database return the same
//! columns in the same order; each `read` below lists them.

use std::collections::HashMap;

use super::dialect::{BacklogRows, RowCounts, StoredSubscription};
use super::load::{LockedSubscription, NotedRow};
use super::refused::Refused;
use super::term_rows::RowClaim;
use crate::Result;
use crate::store::result_row::{ResultRow, count, epoch, required};

impl StoredSubscription {
    /// `name, epoch, clean, paused, halted`
    pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
        Ok(Self {
            name: required(row.text(0)?, 0)?,
            epoch: epoch(row, 1)?,
            clean: required(row.flag(2)?, 2)?,
            paused: row.text(3)?,
            halted: row.text(4)?,
        })
    }
}

impl LockedSubscription {
    /// `epoch, clean, paused, trial, trial_deaths`
    pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
        Ok(Self {
            epoch: epoch(row, 0)?,
            clean: required(row.flag(1)?, 1)?,
            paused: row.text(2)?,
            trial: row.text(3)?,
            trial_deaths: count(row, 4)?,
        })
    }
}

impl NotedRow {
    /// `row_id, key, destination, state, attempts, next_attempt_at, last_error`, then columns of the table: when the
    /// row was created, whether it is delivered, whether it is given up, its limit of attempts.
    pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
        Ok(Self {
            id: row.row_id(0)?,
            key: row.text(1)?,
            destination: row.text(2)?,
            state: required(row.text(3)?, 3)?,
            attempts: count(row, 4)?,
            next_attempt_at: row.time(5)?,
            last_error: row.text(6)?,
            created: row.time(7)?,
            is_done: row.flag(8)?.unwrap_or(false),
            is_given_up: row.flag(9)?.unwrap_or(false),
            limit: row.number(10)?,
            refused: None,
        })
    }
}

#[cfg(feature = "_server")]
impl super::load::ScheduledRow {
    /// `id, key, attempts, next_attempt_at, created_at`
    pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
        Ok(Self {
            id: row.row_id(0)?,
            key: row.text(1)?,
            attempts: required(row.number(2)?, 2)?,
            next_attempt_at: required(row.time(3)?, 3)?,
            created: required(row.time(4)?, 4)?,
        })
    }
}

impl Refused {
    /// `row_id, outcome`
    pub(crate) fn read(row: &impl ResultRow) -> Result<(String, Self)> {
        Ok((row.row_id(0)?, Self::from_word(&required(row.text(1)?, 1)?)))
    }
}

impl RowClaim {
    /// `id, number, claimed_at`, and the attempts of the row when it was marked, if the database records them.
    pub(crate) fn read(row: &impl ResultRow, has_attempts: bool) -> Result<(String, Self)> {
        let attempts = if has_attempts { required(row.number(3)?, 3)? } else { 0 };
        let claim = Self { number: required(row.number(1)?, 1)?, at: required(row.time(2)?, 2)?, attempts };
        Ok((row.row_id(0)?, claim))
    }
}

impl BacklogRows {
    /// The number of rows and what the first is ordered by. In a mapped table a third column is the creation time of
    /// the oldest row; in other tables rows are ordered by their creation time.
    pub(crate) fn read(row: &impl ResultRow, columns: usize) -> Result<Self> {
        let events = required(row.number(0)?, 0)?.unsigned_abs();
        Ok(Self { events, first: row.time(1)?, oldest: row.time(columns - 1)? })
    }
}

impl RowCounts {
    /// See the fields.
    pub(crate) fn read(row: &impl ResultRow) -> Result<Self> {
        let mut by_state = [0; 6];
        for (column, rows) in by_state.iter_mut().enumerate() {
            *rows = required(row.number(column)?, column)?.unsigned_abs();
        }
        Ok(Self { by_state, undelivered: [row.time(6)?, row.time(7)?] })
    }
}

/// How many rows other publishers have marked: recently, and in total.
pub(crate) fn foreign_claims(row: &impl ResultRow) -> Result<(i64, i64)> {
    Ok((required(row.number(0)?, 0)?, required(row.number(1)?, 1)?))
}

/// Adds to each note what the table refused to record.
pub(super) fn with_refused(mut notes: Vec<NotedRow>, refused: Vec<(String, Refused)>) -> Vec<NotedRow> {
    let mut refused: HashMap<String, Refused> = refused.into_iter().collect();
    notes.iter_mut().for_each(|note| note.refused = refused.remove(&note.id));
    notes
}
