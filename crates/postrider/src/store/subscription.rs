//! The row of a subscription and its parked rows: the part of reading them that is the same on every database.

use super::{Epoch, Loaded, Origin};
use crate::ledger::{KnownRows, LastSeen, ParkedRow, ParkedState, Progress, Trial};
use crate::{Code, Error, Position, Result};

/// A row of `subscriptions`.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "some columns are read only on some databases")
)]
pub(super) struct SubscriptionRow {
    pub(super) epoch: Epoch,
    pub(super) progress: Progress,
    pub(super) clean: bool,
    pub(super) paused: Option<String>,
    pub(super) halted: Option<String>,
    /// The server that the progress belongs to, where another server may replace it.
    pub(super) history: Option<String>,
    /// Every event that is done was written by a transaction with a lower id than this: a 64-bit number as text.
    /// PostgreSQL only.
    pub(super) seen_tx: Option<String>,
}

impl SubscriptionRow {
    /// The whole state for the owner of a new epoch, and the parked rows as this owner knows them. `rows` are all
    /// parked rows.
    pub(super) fn into_loaded(
        self,
        epoch: Epoch,
        rows: Vec<ParkedRow>,
        origin: Option<Origin>,
    ) -> (Loaded, KnownRows) {
        let (parked_count, known) = (rows.len() as u64, KnownRows::loaded(epoch, &rows));
        let (last, parked): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.state.is_final());
        let dead = last.into_iter().filter(|row| row.state == ParkedState::Dead).collect();
        let Self { progress, clean, paused, .. } = self;
        let loaded =
            Loaded { epoch, progress, parked, dead, parked_count, clean, previous: None, paused, origin };
        (loaded, known)
    }
}

/// The columns of a progress.
pub(super) struct ProgressColumns<'a> {
    pub(super) done: &'a str,
    pub(super) highest: Option<LastSeen>,
    pub(super) trial: Option<&'a str>,
    pub(super) trial_deaths: u32,
}

impl ProgressColumns<'_> {
    /// The progress of the subscription with this name.
    ///
    /// # Errors
    /// [`Code::RowDamaged`].
    pub(super) fn read(self, name: &str) -> Result<Progress> {
        let Self { done, highest, trial, trial_deaths } = self;
        let read_trial =
            |text| Trial::from_words(text, trial_deaths).map_err(|_| damaged_column(name, "trial", text));
        Ok(Progress {
            done: done.parse().map_err(|_| damaged_column(name, "done", done))?,
            highest,
            trial: trial.map(read_trial).transpose()?,
        })
    }
}

/// The error for a column of a subscription that cannot be read.
pub(super) fn damaged_column(name: &str, column: &str, text: &str) -> Error {
    Error::new(Code::RowDamaged, format!("subscription {name:?} has {column} = {text:?}"))
        .with_hint("repair the row, or restore the subscription's progress from a backup")
}

/// The state of a parked row, by its name.
///
/// # Errors
/// [`Code::RowDamaged`].
pub(super) fn parked_state(position: Position, word: &str) -> Result<ParkedState> {
    let what = || format!("parked position {position} has state {word:?}");
    ParkedState::from_word(word).ok_or_else(|| Error::new(Code::RowDamaged, what()))
}

/// Refuses a subscription that a statement did not find.
///
/// # Errors
/// [`Code::SubscriptionUnknown`].
pub(super) fn require_found(subscription: &str, is_found: bool) -> Result<()> {
    if is_found { Ok(()) } else { Err(unknown(subscription)) }
}

/// The error for a subscription that does not exist.
pub(super) fn unknown(subscription: &str) -> Error {
    Error::new(Code::SubscriptionUnknown, format!("there is no subscription {subscription:?}"))
}
