//! What the database refuses to record of a settlement, row by row; see adr/0050-rows-that-cannot-be-updated.md.
//!
//! A settlement is one transaction. One row that cannot be updated (a CHECK, a trigger, a number at its end) would make
//! all of it fail, forever. So a settlement that is refused is recorded again in halves, until what is refused is a
//! single row. What became of that row is kept in our own tables, and it is not handed out again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::dialect::RowConnection;
use super::plan::{Note, OutcomeRows, SettlePlan, log_missed};
use super::session::RowSession;
use super::session_rows::{RowClaim, RowId, SessionRows};
use crate::store::{Epoch, Settled};
use crate::{Code, Error, Position, Result};

/// Rows refused in one session after which the subscription is loaded again, so that the relay counts them as parked.
const SESSION_ROWS_MAX: usize = 1_000;

/// Bytes of payloads that are read to learn whether rows are still due.
pub(crate) const PAYLOADS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What is kept of a reason. It comes from the database, and may quote what the owner of the table wrote.
const REASON_CHARS_MAX: usize = 1_000;

/// The reason for a row that an update left unchanged without an error.
const UNCHANGED: &str = "an UPDATE or DELETE of the row has no effect; look for a trigger or a rule";

/// What the table was to record of a row when it refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// That it was delivered.
    Delivered,
    /// That it was given up.
    GivenUp,
}

impl Refused {
    /// Its word in our own tables.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::GivenUp => "given up",
        }
    }

    /// What a word in our own tables stands for.
    pub(crate) fn from_word(word: &str) -> Self {
        if word == Self::Delivered.as_str() { Self::Delivered } else { Self::GivenUp }
    }
}

/// A settlement in as many pieces as it takes.
#[derive(Debug)]
pub(crate) struct Pieces {
    subscription: String,
    /// What every piece says of the trial: its rows and its deaths.
    trial: (Option<String>, u32),
    /// The next one is the last.
    todo: Vec<SettlePlan>,
    /// Rows that stay marked as ours, for they could not be given back.
    kept: HashSet<Position>,
    /// Rows that were to be changed, of pieces of which not every row was.
    unsure: Vec<Unsure>,
    /// How many rows were refused.
    refused: usize,
    planned: usize,
    changed: usize,
}

/// A row that may be as it was, though the database reported no error.
#[derive(Debug)]
struct Unsure {
    position: Position,
    id: RowId,
    /// Of a row that was given up.
    note: Option<Note>,
}

/// Which rows an update left unchanged.
#[derive(Debug, Default)]
pub(crate) struct Unchanged {
    /// Rows that are as they were.
    pub(crate) ids: HashSet<RowId>,
    /// The first row that was not looked at: nothing is known of it and of those after it.
    pub(crate) left: Option<RowId>,
}

/// How a store records a piece.
pub(crate) trait Recorder: Send {
    /// Records all of it or nothing. Returns how many rows were changed; `None` if the lease was lost.
    fn record(&mut self, plan: Arc<SettlePlan>) -> impl Future<Output = Result<Option<usize>>> + Send;

    /// Which of these rows are as they were before they were to be changed. Looks at one at least, in their order.
    fn unchanged(&mut self, ids: Vec<RowId>) -> impl Future<Output = Result<Unchanged>> + Send;
}

/// Records all pieces. If the process dies between two of them, what is not recorded is delivered again.
pub(crate) async fn settle<R: Recorder>(
    recorder: &mut R,
    session: &RowSession,
    mut pieces: Pieces,
) -> Result<Settled> {
    loop {
        while let Some(plan) = session.with_rows(|known| pieces.next(known)) {
            let plan = Arc::new(plan);
            let answer = recorder.record(plan.clone()).await;
            let plan = Arc::unwrap_or_clone(plan);
            if session.with_rows(|known| pieces.apply_answer(plan, answer, known))? == Settled::Fenced {
                return Ok(Settled::Fenced);
            }
        }
        if pieces.unsure.is_empty() {
            break;
        }
        let asked = pieces.unsure.iter().map(|row| row.id.clone()).collect();
        let unchanged = recorder.unchanged(asked).await?;
        session.with_rows(|known| pieces.sort_out(&unchanged, known));
    }
    log_missed(&pieces.subscription, pieces.planned.saturating_sub(pieces.changed));
    session.with_rows(|known| pieces.finish(known)).map(|()| Settled::Done)
}

impl Pieces {
    pub(crate) fn of(subscription: &str, plan: SettlePlan) -> Self {
        Self {
            subscription: subscription.to_owned(),
            trial: (plan.trial.clone(), plan.trial_deaths),
            planned: plan.rows(),
            todo: vec![plan],
            kept: HashSet::new(),
            unsure: Vec::new(),
            refused: 0,
            changed: 0,
        }
    }

    /// A separate piece for deliveries that are recorded in parallel with the rest.
    pub(crate) fn beside(&mut self, done: OutcomeRows) -> SettlePlan {
        let (trial, trial_deaths) = self.trial.clone();
        self.planned += done.ids.len();
        SettlePlan { done, trial, trial_deaths, ..SettlePlan::default() }
    }

    /// The next piece to record.
    pub(crate) fn next(&mut self, known: &SessionRows) -> Option<SettlePlan> {
        let mut plan = self.todo.pop()?;
        if self.refused > 0 {
            plan.keep(&self.kept);
            // A claim of which a row is left is not over.
            let (left, over) = (known.claims(), known.claims_over(&plan.leaving()));
            plan.claims_over.retain(|number| !left.contains(number) || over.contains(number));
        }
        Some(plan)
    }

    /// What became of a piece. One that was refused is cut in two, or goes on without its only row.
    ///
    /// # Errors
    /// The error itself, if it is no refusal or no row is left to be refused.
    pub(crate) fn apply_answer(
        &mut self,
        mut plan: SettlePlan,
        answer: Result<Option<usize>>,
        known: &mut SessionRows,
    ) -> Result<Settled> {
        let rows = plan.rows();
        match answer {
            Ok(None) => return Ok(Settled::Fenced),
            Ok(Some(changed)) => {
                self.changed += changed;
                if changed < rows {
                    self.unsure.extend(plan.unsure());
                }
                plan.enter(known);
            }
            Err(error) if error.code() != Code::RowRefused || rows == 0 => return Err(error),
            Err(error) if rows == 1 => {
                self.changed += 1;
                self.refused += 1;
                self.kept.extend(plan.refuse(&self.subscription, &reason(&error)));
                self.todo.push(plan);
            }
            Err(_) => {
                let first = plan.cut(rows / 2);
                self.todo.extend([plan, first]);
            }
        }
        Ok(Settled::Done)
    }

    /// Of the rows that may be as they were, some are; the others another process has settled. Those that were not
    /// looked at stay unsure.
    fn sort_out(&mut self, unchanged: &Unchanged, known: &mut SessionRows) {
        let (trial, trial_deaths) = self.trial.clone();
        let mut plan = SettlePlan { trial, trial_deaths, ..SettlePlan::default() };
        let left =
            unchanged.left.as_ref().and_then(|left| self.unsure.iter().position(|row| row.id == *left));
        let unread = self.unsure.split_off(left.unwrap_or(self.unsure.len()));
        for row in std::mem::replace(&mut self.unsure, unread) {
            let is_delivered = row.note.is_none();
            if unchanged.ids.contains(&row.id) {
                log_refused(&self.subscription, &row.id, "unchanged", UNCHANGED);
                plan.leave_unchanged(row);
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
    /// [`Code::RowRefused`] if so many rows were refused that the relay has to count them.
    fn finish(&self, known: &mut SessionRows) -> Result<()> {
        known.refused += self.refused;
        if known.refused < SESSION_ROWS_MAX || self.refused == 0 {
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
    /// Takes the first rows out, with what is said of them alone.
    fn cut(&mut self, rows: usize) -> Self {
        let mut first =
            Self { trial: self.trial.clone(), trial_deaths: self.trial_deaths, ..Self::default() };
        let mut left = rows;
        let outcomes = [
            (&mut self.done, &mut first.done),
            (&mut self.retried, &mut first.retried),
            (&mut self.ended, &mut first.ended),
            (&mut self.returned, &mut first.returned),
        ];
        for (from, to) in outcomes {
            *to = from.take(left);
            left -= to.ids.len();
        }
        let ids: HashSet<String> = first.outcomes().flat_map(|outcome| outcome.ids.iter().cloned()).collect();
        let positions: HashSet<Position> = first.leaving().into_iter().collect();
        first.notes = self.notes.extract_if(.., |note| ids.contains(&note.id)).collect();
        first.forgotten = self.forgotten.extract_if(.., |id| ids.contains(id)).collect();
        first.unrouted = self.unrouted.extract_if(.., |position| positions.contains(position)).collect();
        first
    }

    /// Takes out the only row, which the table refuses to change, and puts down what became of it. Answers its position
    /// if it stays marked as ours.
    fn refuse(&mut self, subscription: &str, reason: &str) -> Option<Position> {
        let [done, retried, ended, returned] = [
            std::mem::take(&mut self.done),
            std::mem::take(&mut self.retried),
            std::mem::take(&mut self.ended),
            std::mem::take(&mut self.returned),
        ];
        let log = |row: &str, outcome: &str| log_refused(subscription, row, outcome, reason);
        if let Some((position, id)) = done.only() {
            log(id, "delivered");
            self.refuse_done(position, id, reason);
        }
        if let Some((position, id)) = retried.only() {
            log(id, "retry");
            self.note_of(id, reason);
            self.parked.push(position);
        }
        if let Some((position, id)) = ended.only() {
            log(id, "given up");
            if let Some(note) = self.note_of(id, reason) {
                note.refused = Some(Refused::GivenUp);
            }
            if !self.unrouted.contains(&position) {
                self.refused.push(position);
            }
        }
        let kept = returned.only()?;
        log(kept.1, "given back");
        Some(kept.0)
    }

    /// A row that was delivered, and whose table does not say so.
    fn refuse_done(&mut self, position: Position, id: &str, reason: &str) {
        self.forgotten.retain(|forgotten| forgotten != id);
        self.refused.push(position);
        let said = format!("row {id} was delivered, but its table rejects the update: {reason}");
        self.notes.push(Note::refused_done(id, said));
    }

    /// The note of a row, with the reason added.
    fn note_of(&mut self, id: &str, reason: &str) -> Option<&mut Note> {
        let note = self.notes.iter_mut().find(|note| note.id == id)?;
        let before = note.last_error.take().map_or_else(String::new, |error| format!("{error}; "));
        note.last_error = Some(format!("{before}its table rejects the update: {reason}"));
        Some(note)
    }

    /// Rows that stay marked as ours are not given back.
    fn keep(&mut self, kept: &HashSet<Position>) {
        self.kept.extend(self.parked.extract_if(.., |position| kept.contains(position)));
    }

    fn outcomes(&self) -> impl Iterator<Item = &OutcomeRows> {
        [&self.done, &self.retried, &self.ended, &self.returned].into_iter()
    }

    /// Rows that may be as they were, taken out of the piece: delivered ones, and those given up.
    fn unsure(&mut self) -> Vec<Unsure> {
        let done = std::mem::take(&mut self.done);
        let done = done.positions.into_iter().zip(done.ids);
        let done = done.map(|(position, id)| Unsure { position, id: id.into(), note: None });
        let is_final = |(position, _): &(&Position, &String)| !self.unrouted.contains(position);
        let ended = self.ended.positions.iter().zip(&self.ended.ids).filter(is_final);
        let ended = ended.filter_map(|(position, id)| {
            let note = self.notes.iter().find(|note| note.id == *id)?.clone();
            Some(Unsure { position: *position, id: id.as_str().into(), note: Some(note) })
        });
        done.chain(ended).collect()
    }

    /// A row that its table left as it was, without an error.
    fn leave_unchanged(&mut self, row: Unsure) {
        let Unsure { position, id, note } = row;
        match note {
            None => self.refuse_done(position, &id, UNCHANGED),
            Some(note) => {
                self.notes.push(note);
                if let Some(note) = self.note_of(&id, UNCHANGED) {
                    note.refused = Some(Refused::GivenUp);
                }
                self.refused.push(position);
            }
        }
    }
}

/// Marks rows as being published, without those that their table refuses to mark.
pub(crate) async fn mark_in_pieces<C: RowConnection>(
    connection: &mut C,
    subscription: &str,
    epoch: Epoch,
    rows: Vec<(RowId, i64)>,
) -> Result<MarkedRows> {
    let mut marking = Marking::of(rows);
    while let Some(rows) = marking.next() {
        let answer = connection.mark(subscription, epoch, &rows).await;
        marking.apply_answer(rows, answer)?;
    }
    Ok(marking.marked)
}

/// Rows to be marked as being published, in as many pieces as it takes.
struct Marking {
    todo: Vec<Vec<(RowId, i64)>>,
    marked: MarkedRows,
}

/// Rows that were marked or locked, and those that their table refuses to mark, each with the reason.
#[derive(Default)]
pub(crate) struct MarkedRows {
    pub(crate) claims: HashMap<RowId, RowClaim>,
    pub(crate) refused: HashMap<RowId, String>,
    /// Keeps locks from being released until the rows are entered in the session.
    pub(crate) _held: Option<Box<dyn Send>>,
}

impl Marking {
    fn of(rows: Vec<(RowId, i64)>) -> Self {
        let todo = if rows.is_empty() { Vec::new() } else { vec![rows] };
        Self { todo, marked: MarkedRows::default() }
    }

    fn next(&mut self) -> Option<Vec<(RowId, i64)>> {
        self.todo.pop()
    }

    /// What became of a piece.
    ///
    /// # Errors
    /// The error itself, if it is no refusal.
    fn apply_answer(
        &mut self,
        mut rows: Vec<(RowId, i64)>,
        answer: Result<HashMap<RowId, RowClaim>>,
    ) -> Result<()> {
        match answer {
            Ok(claims) => self.marked.claims.extend(claims),
            Err(error) if error.code() != Code::RowRefused => return Err(error),
            Err(error) if rows.len() == 1 => {
                let why = format!("its table rejects the mark as being published: {}", reason(&error));
                self.marked.refused.extend(rows.into_iter().map(|(id, _)| (id, why.clone())));
            }
            Err(_) => {
                let half = rows.split_off(rows.len() / 2);
                self.todo.extend([half, rows]);
            }
        }
        Ok(())
    }
}

/// What a row counts once it is marked. At its end a count stays there.
pub(crate) const fn counted(attempts: i64) -> i64 {
    if attempts < i32::MAX as i64 { attempts + 1 } else { attempts }
}

#[cfg(test)]
#[path = "refused_tests.rs"]
mod tests;
