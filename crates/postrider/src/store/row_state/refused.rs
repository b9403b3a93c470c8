//! Rows that a table refuses to update; see adr/0050-rows-that-cannot-be-updated.md.
//!
//! A settlement is one transaction. One row that cannot be updated (because of a CHECK, a trigger, or a number at its
//! maximum) would make all of it fail, every time. A refused settlement is therefore recorded in halves, until a single
//! row is refused. Postrider keeps the outcome of that row in its own tables and does not hand the row out again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::dialect::{Owner, RowConnection, SeenRow};
use super::plan::{Note, OutcomeRows, SettlePlan, log_not_updated};
use super::term::RowTerm;
use super::term_rows::{Claims, RowId, TermRows};
use crate::store::Settled;
use crate::{Code, Error, Position, Result};

/// After this many refused rows in one term the subscription is loaded again, so that the relay counts them as
/// parked.
const TERM_REFUSED_MAX: usize = 1_000;

/// The budget of a check whether rows are unchanged. The check reads their payloads, too.
pub(crate) const PAYLOADS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A reason is cut to this length. It comes from the database and may quote texts of any length.
const REASON_CHARS_MAX: usize = 1_000;

/// The reason for a row that an update left unchanged without an error.
const UNCHANGED: &str = "an UPDATE or DELETE of the row has no effect; look for a trigger or a rule";

/// The outcome that the table refused to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// That it was delivered.
    Delivered,
    /// That it was given up.
    GivenUp,
}

impl Refused {
    /// Its value in Postrider's tables.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::GivenUp => "given up",
        }
    }

    /// The outcome for a value in Postrider's tables.
    pub(crate) fn from_word(word: &str) -> Self {
        if word == Self::Delivered.as_str() { Self::Delivered } else { Self::GivenUp }
    }
}

/// A settlement, in as many pieces as necessary.
#[derive(Debug)]
pub(crate) struct Pieces {
    subscription: String,
    /// The trial that every piece records: its rows and its deaths.
    trial: (Option<String>, u32),
    /// Pieces to record, the next one last.
    todo: Vec<SettlePlan>,
    /// Rows that stay marked, because the table refused to remove the mark.
    still_marked: HashSet<Position>,
    /// Rows of pieces of which fewer rows were changed than planned.
    unconfirmed: Vec<UnconfirmedRow>,
    /// How many rows were refused.
    refused: usize,
    planned: usize,
    changed: usize,
}

/// A row that may be unchanged, although the database reported no error.
#[derive(Debug)]
struct UnconfirmedRow {
    position: Position,
    id: RowId,
    /// The note, if the row was given up; `None` if it was delivered.
    note: Option<Note>,
}

/// Which rows an update left unchanged.
#[derive(Debug, Default)]
pub(crate) struct UnchangedRows {
    pub(crate) ids: HashSet<RowId>,
    /// The first row that was not checked. Nothing is known about it and the rows after it.
    pub(crate) first_unread: Option<RowId>,
}

/// How a store records a piece.
pub(crate) trait Recorder: Send {
    /// Records all of it or nothing. Returns how many rows were changed; `None` if the lease was lost.
    fn record(&mut self, plan: Arc<SettlePlan>) -> impl Future<Output = Result<Option<usize>>> + Send;

    /// Which of these rows an update left unchanged. Checks them in their order; at least one.
    fn unchanged(&mut self, ids: Vec<RowId>) -> impl Future<Output = Result<UnchangedRows>> + Send;
}

/// Records all pieces. If the process dies between two of them, what is not recorded is delivered again.
pub(crate) async fn settle<R: Recorder>(
    recorder: &mut R,
    term: &RowTerm,
    mut pieces: Pieces,
) -> Result<Settled> {
    loop {
        while let Some(plan) = term.with_rows(|known| pieces.next(known)) {
            let plan = Arc::new(plan);
            let recorded = recorder.record(plan.clone()).await;
            let plan = Arc::unwrap_or_clone(plan);
            if term.with_rows(|known| pieces.apply_result(plan, recorded, known))? == Settled::Fenced {
                return Ok(Settled::Fenced);
            }
        }
        if pieces.unconfirmed.is_empty() {
            break;
        }
        let ids = pieces.unconfirmed.iter().map(|row| row.id.clone()).collect();
        let unchanged = recorder.unchanged(ids).await?;
        term.with_rows(|known| pieces.apply_check(&unchanged, known));
    }
    log_not_updated(&pieces.subscription, pieces.planned.saturating_sub(pieces.changed));
    term.with_rows(|known| pieces.finish(known)).map(|()| Settled::Done)
}

impl Pieces {
    pub(crate) fn of(subscription: &str, plan: SettlePlan) -> Self {
        Self {
            subscription: subscription.to_owned(),
            trial: (plan.trial.clone(), plan.trial_deaths),
            planned: plan.rows(),
            todo: vec![plan],
            still_marked: HashSet::new(),
            unconfirmed: Vec::new(),
            refused: 0,
            changed: 0,
        }
    }

    /// A separate piece for deliveries that are recorded in parallel with the rest.
    pub(crate) fn parallel_piece(&mut self, done: OutcomeRows) -> SettlePlan {
        let (trial, trial_deaths) = self.trial.clone();
        self.planned += done.ids.len();
        SettlePlan { done, trial, trial_deaths, ..SettlePlan::default() }
    }

    /// The next piece to record.
    pub(crate) fn next(&mut self, known: &TermRows) -> Option<SettlePlan> {
        let mut plan = self.todo.pop()?;
        if self.refused > 0 {
            plan.keep_marks(&self.still_marked);
            // A claim with a row that stays marked is not finished.
            let (open, finished) = (known.open_claims(), known.claims_finished_by(&plan.leaving()));
            plan.finished_claims.retain(|number| !open.contains(number) || finished.contains(number));
        }
        Some(plan)
    }

    /// Processes the result of recording a piece. A refused piece is split in two, or continues without its only row.
    ///
    /// # Errors
    /// The error itself, if it is not a refusal, or the piece has no row that could have been refused.
    pub(crate) fn apply_result(
        &mut self,
        mut plan: SettlePlan,
        recorded: Result<Option<usize>>,
        known: &mut TermRows,
    ) -> Result<Settled> {
        let rows = plan.rows();
        match recorded {
            Ok(None) => return Ok(Settled::Fenced),
            Ok(Some(changed)) => {
                self.changed += changed;
                if changed < rows {
                    self.unconfirmed.extend(plan.take_unconfirmed());
                }
                plan.apply(known);
            }
            Err(error) if error.code() != Code::RowRefused || rows == 0 => return Err(error),
            Err(error) if rows == 1 => {
                self.changed += 1;
                self.refused += 1;
                self.still_marked.extend(plan.refuse(&self.subscription, &reason(&error)));
                self.todo.push(plan);
            }
            Err(_) => {
                let first = plan.split_off(rows / 2);
                self.todo.extend([plan, first]);
            }
        }
        Ok(Settled::Done)
    }

    /// Processes a check of unconfirmed rows: the table left some of them unchanged, and another process settled the
    /// others. Rows that were not checked stay unconfirmed.
    fn apply_check(&mut self, unchanged: &UnchangedRows, known: &mut TermRows) {
        let (trial, trial_deaths) = self.trial.clone();
        let mut plan = SettlePlan { trial, trial_deaths, ..SettlePlan::default() };
        let first_unread = unchanged.first_unread.as_ref();
        let checked = self.unconfirmed.iter().position(|row| Some(&row.id) == first_unread);
        let unread = self.unconfirmed.split_off(checked.unwrap_or(self.unconfirmed.len()));
        for row in std::mem::replace(&mut self.unconfirmed, unread) {
            let is_delivered = row.note.is_none();
            if unchanged.ids.contains(&row.id) {
                log_refused(&self.subscription, &row.id, "unchanged", UNCHANGED);
                plan.refuse_unchanged(row);
                (self.changed, self.refused) = (self.changed + 1, self.refused + 1);
            } else if is_delivered {
                known.remove(row.position);
            }
        }
        if !plan.notes.is_empty() {
            self.todo.push(plan);
        }
    }

    /// # Errors
    /// [`Code::RowRefused`] after [`TERM_REFUSED_MAX`] refused rows.
    fn finish(&self, known: &mut TermRows) -> Result<()> {
        known.refused += self.refused;
        if known.refused < TERM_REFUSED_MAX || self.refused == 0 {
            return Ok(());
        }
        let what = format!(
            "the table has rejected the update of {} rows since the lease was acquired",
            known.refused
        );
        Err(Error::new(Code::RowRefused, what))
    }
}

fn log_refused(subscription: &str, row: &str, outcome: &str, reason: &str) {
    tracing::warn!(
        subscription,
        row,
        outcome,
        reason,
        "the table rejects the update of a row; its state is kept in Postrider's own tables, and it is not sent again"
    );
}

fn reason(error: &Error) -> String {
    error.one_line().chars().take(REASON_CHARS_MAX).collect()
}

impl SettlePlan {
    /// Splits off the first rows, with their notes.
    fn split_off(&mut self, rows: usize) -> Self {
        let mut first =
            Self { trial: self.trial.clone(), trial_deaths: self.trial_deaths, ..Self::default() };
        let mut left = rows;
        let outcomes = [
            (&mut self.done, &mut first.done),
            (&mut self.retried, &mut first.retried),
            (&mut self.given_up, &mut first.given_up),
            (&mut self.unmarked, &mut first.unmarked),
        ];
        for (from, to) in outcomes {
            *to = from.take(left);
            left -= to.ids.len();
        }
        let ids: HashSet<String> =
            first.outcomes().iter().flat_map(|outcome| outcome.ids.iter().cloned()).collect();
        let positions: HashSet<Position> = first.leaving().into_iter().collect();
        first.notes = self.notes.extract_if(.., |note| ids.contains(&note.id)).collect();
        first.obsolete_notes = self.obsolete_notes.extract_if(.., |id| ids.contains(id)).collect();
        first.expired = self.expired.extract_if(.., |position| positions.contains(position)).collect();
        first.unrouted = self.unrouted.extract_if(.., |position| positions.contains(position)).collect();
        first
    }

    /// Removes the only row, which the table refuses to change, and notes its outcome instead. Returns its position if
    /// it stays marked.
    fn refuse(&mut self, subscription: &str, reason: &str) -> Option<Position> {
        let [done, retried, given_up, unmarked] = [
            std::mem::take(&mut self.done),
            std::mem::take(&mut self.retried),
            std::mem::take(&mut self.given_up),
            std::mem::take(&mut self.unmarked),
        ];
        let log = |row: &str, outcome: &str| log_refused(subscription, row, outcome, reason);
        if let Some((position, id)) = done.only() {
            log(id, "delivered");
            self.refuse_delivery(position, id, reason);
        }
        if let Some((position, id)) = retried.only() {
            log(id, "retry");
            self.note_with_reason(id, reason);
            self.parked.push(position);
        }
        if let Some((position, id)) = given_up.only() {
            log(id, "given up");
            if let Some(note) = self.note_with_reason(id, reason) {
                note.refused = Some(Refused::GivenUp);
            }
            if !self.unrouted.contains(&position) {
                self.refused.push(position);
            }
        }
        let (position, id) = unmarked.only()?;
        log(id, "given back");
        Some(position)
    }

    /// Notes that a row was delivered, because its table does not record that.
    fn refuse_delivery(&mut self, position: Position, id: &str, reason: &str) {
        self.obsolete_notes.retain(|obsolete| obsolete != id);
        self.refused.push(position);
        let last_error = format!("row {id} was delivered, but its table rejects the update: {reason}");
        self.notes.push(Note::refused_delivery(id, last_error));
    }

    /// Adds the reason to the note of a row.
    fn note_with_reason(&mut self, id: &str, reason: &str) -> Option<&mut Note> {
        let note = self.notes.iter_mut().find(|note| note.id == id)?;
        let before = note.last_error.take().map_or_else(String::new, |error| format!("{error}; "));
        note.last_error = Some(format!("{before}its table rejects the update: {reason}"));
        Some(note)
    }

    /// Keeps the marks of parked rows whose mark the table refused to remove.
    fn keep_marks(&mut self, still_marked: &HashSet<Position>) {
        self.still_marked.extend(self.parked.extract_if(.., |position| still_marked.contains(position)));
    }

    /// Removes the rows that may be unchanged: the delivered ones, and copies of those given up.
    fn take_unconfirmed(&mut self) -> Vec<UnconfirmedRow> {
        let done = std::mem::take(&mut self.done);
        let done = done.positions.into_iter().zip(done.ids);
        let done = done.map(|(position, id)| UnconfirmedRow { position, id: id.into(), note: None });
        let is_final = |(position, _): &(&Position, &String)| !self.unrouted.contains(position);
        let given_up = self.given_up.positions.iter().zip(&self.given_up.ids).filter(is_final);
        let given_up = given_up.filter_map(|(position, id)| {
            let note = self.notes.iter().find(|note| note.id == *id)?.clone();
            Some(UnconfirmedRow { position: *position, id: id.as_str().into(), note: Some(note) })
        });
        done.chain(given_up).collect()
    }

    /// Notes the outcome of a row that its table left unchanged without an error.
    fn refuse_unchanged(&mut self, row: UnconfirmedRow) {
        let UnconfirmedRow { position, id, note } = row;
        match note {
            None => self.refuse_delivery(position, &id, UNCHANGED),
            Some(note) => {
                self.notes.push(note);
                if let Some(note) = self.note_with_reason(&id, UNCHANGED) {
                    note.refused = Some(Refused::GivenUp);
                }
                self.refused.push(position);
            }
        }
    }
}

/// Marks rows as being published, except those that their table refuses to mark. A refused piece is halved, until a
/// single row is refused.
pub(crate) async fn mark_in_pieces<C: RowConnection>(
    connection: &mut C,
    owner: Owner<'_>,
    rows: Vec<SeenRow>,
) -> Result<MarkedRows> {
    let mut marked = MarkedRows::default();
    let mut todo = if rows.is_empty() { Vec::new() } else { vec![rows] };
    while let Some(mut rows) = todo.pop() {
        match connection.mark(owner, &rows).await {
            Ok(claims) => marked.claims.extend(claims),
            Err(error) if error.code() != Code::RowRefused => return Err(error),
            Err(error) if rows.len() == 1 => {
                let why = format!("its table rejects the mark as being published: {}", reason(&error));
                marked.refused.extend(rows.into_iter().map(|(id, _)| (id, why.clone())));
            }
            Err(_) => {
                let half = rows.split_off(rows.len() / 2);
                todo.extend([half, rows]);
            }
        }
    }
    Ok(marked)
}

/// Rows that were marked or locked, and those that their table refuses to mark, each with the reason.
#[derive(Default)]
pub(crate) struct MarkedRows {
    pub(crate) claims: Claims,
    pub(crate) refused: HashMap<RowId, String>,
    /// Prevents the release of locks until the rows are part of the term.
    pub(crate) _lock_guard: Option<Box<dyn Send>>,
}

/// The attempts of a row after it was marked. A count at its maximum stays there.
pub(crate) const fn attempts_after_mark(attempts: i64) -> i64 {
    if attempts < i32::MAX as i64 { attempts + 1 } else { attempts }
}

#[cfg(test)]
#[path = "refused_tests.rs"]
mod tests;
