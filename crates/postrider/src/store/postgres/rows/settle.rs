//! Settling: one statement for all outcomes, fenced by the epoch, and a second for half of many deliveries.

use std::collections::BTreeMap;

use super::super::line::Turn;
use super::super::park::storable;
use super::super::time::Time;
use super::Rows;
use super::book::{Book, Entry, Stage};
use super::deliver::{self, SHARED_FROM};
use crate::ledger::{ParkedRow, ParkedState, Trial};
use crate::store::{Settled, Settlement};
use crate::{Position, Result};

/// Rows of one outcome, as one array per column.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    positions: Vec<Position>,
    pub(super) ids: Vec<String>,
    pub(super) stamps: Vec<Option<Time>>,
    attempts: Vec<i64>,
    next: Vec<Option<Time>>,
}

impl Outcome {
    fn push(&mut self, position: Position, entry: &Entry, attempts: u32, next: Option<Time>) {
        self.positions.push(position);
        self.ids.push(entry.id.to_string());
        self.stamps.push(entry.claim.map(|claim| claim.at));
        self.attempts.push(attempts.into());
        self.next.push(next);
    }

    /// Its second half.
    fn halve(&mut self) -> Self {
        let at = self.ids.len() / 2;
        Self {
            positions: self.positions.split_off(at),
            ids: self.ids.split_off(at),
            stamps: self.stamps.split_off(at),
            attempts: self.attempts.split_off(at),
            next: self.next.split_off(at),
        }
    }
}

/// Notes to write, as one array per column.
#[derive(Debug, Default)]
struct Notes {
    ids: Vec<String>,
    keys: Vec<Option<String>>,
    destinations: Vec<Option<String>>,
    states: Vec<&'static str>,
    attempts: Vec<i64>,
    next: Vec<Option<Time>>,
    errors: Vec<Option<String>>,
}

impl Notes {
    fn push(&mut self, entry: &Entry, row: &ParkedRow, attempts: u32) {
        self.ids.push(entry.id.to_string());
        self.keys.push(row.key.clone().map(storable));
        self.destinations.push(row.destination.clone().map(storable));
        self.states.push(row.state.as_str());
        self.attempts.push(attempts.into());
        self.next.push(row.next_attempt_at.map(Time));
        self.errors.push(row.last_error.clone().map(storable));
    }
}

/// What a settlement means for the rows of the table.
#[derive(Debug, Default)]
struct Plan {
    done: Outcome,
    retried: Outcome,
    ended: Outcome,
    /// Unrouted rows: given up in the table, and still waited for.
    unrouted: Vec<Position>,
    /// Rows that wait and are not to be marked meanwhile.
    returned: Outcome,
    /// Rows that wait, marked or not.
    parked: Vec<Position>,
    /// Rows that somebody else settled.
    taken: Vec<Position>,
    notes: Notes,
    forgotten: Vec<String>,
    claims_over: Vec<i64>,
}

impl Plan {
    fn of(settlement: &Settlement, book: &Book) -> Self {
        let mut plan = Self::default();
        let park: BTreeMap<Position, &ParkedRow> =
            settlement.park.iter().map(|row| (row.position, row)).collect();
        for (position, row) in &park {
            if let Some(entry) = book.get(*position) {
                plan.park(*position, entry, row);
            }
        }
        let unparked = settlement.unpark.iter().filter(|position| !park.contains_key(position));
        for position in unparked {
            if let Some(entry) = book.get(*position) {
                plan.finish(*position, entry);
            }
        }
        for (position, entry) in book.out() {
            if settlement.done.contains(position) && !park.contains_key(&position) {
                plan.finish(position, entry);
            }
        }
        let leaving = [&plan.done, &plan.retried, &plan.ended, &plan.returned];
        let leaving: Vec<Position> =
            leaving.iter().flat_map(|outcome| &outcome.positions).chain(&plan.taken).copied().collect();
        plan.claims_over = book.claims_over(&leaving);
        plan
    }

    fn finish(&mut self, position: Position, entry: &Entry) {
        if entry.is_noted {
            self.forgotten.push(entry.id.to_string());
        }
        match entry.stage {
            Stage::Taken => self.taken.push(position),
            _ => self.done.push(position, entry, 0, None),
        }
    }

    fn park(&mut self, position: Position, entry: &Entry, row: &ParkedRow) {
        if entry.stage == Stage::Taken {
            self.taken.push(position);
            return;
        }
        let tried = entry.tried_before.saturating_add(row.attempts);
        match row.state {
            ParkedState::Retry => {
                // At its limit it would count as given up.
                let kept = tried.min(entry.limit.saturating_sub(1)).max(1);
                self.retried.push(position, entry, kept, row.next_attempt_at.map(Time));
                self.notes.push(entry, row, tried);
            }
            ParkedState::Dead | ParkedState::Expired => {
                self.ended.push(position, entry, tried.max(entry.limit), None);
                self.notes.push(entry, row, tried);
            }
            ParkedState::Unrouted => {
                self.ended.push(position, entry, tried.max(entry.limit), None);
                self.unrouted.push(position);
                self.notes.push(entry, row, tried);
            }
            ParkedState::Behind | ParkedState::Held => {
                if row.state == ParkedState::Held {
                    self.notes.push(entry, row, tried);
                }
                // One that is in the relay's hands again by now stays marked.
                if entry.stage != Stage::Recalled {
                    self.parked.push(position);
                    if entry.claim.is_some() {
                        self.returned.push(position, entry, 0, None);
                    }
                }
            }
        }
    }

    /// Deliveries that need not be in one transaction with the rest: of rows that carry no mark and have no note.
    fn halve(&mut self) -> Option<Outcome> {
        let is_bare = self.forgotten.is_empty() && self.done.stamps.iter().all(Option::is_none);
        (is_bare && self.done.ids.len() >= SHARED_FROM).then(|| self.done.halve())
    }

    fn rows(&self) -> usize {
        [&self.done, &self.retried, &self.ended, &self.returned].iter().map(|outcome| outcome.ids.len()).sum()
    }

    /// Enters what was settled.
    fn enter(self, book: &mut Book) {
        let noted: Vec<Position> = self.notes.ids.iter().filter_map(|id| book.position_of(id)).collect();
        for position in noted {
            book.change(position, |row| row.is_noted = true);
        }
        self.done.positions.iter().chain(&self.taken).for_each(|position| book.remove(*position));
        for position in self.retried.positions.iter().chain(&self.parked).chain(&self.unrouted) {
            book.change(*position, |row| (row.stage, row.claim) = (Stage::Parked, None));
        }
        for position in self.ended.positions.iter().filter(|position| !self.unrouted.contains(position)) {
            book.change(*position, |row| (row.stage, row.claim) = (Stage::Ended, None));
        }
    }
}

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) async fn settle(rows: &Rows, turn: &mut Turn<'_>, settlement: &Settlement) -> Result<Settled> {
    let (epoch, mut plan, trial) = rows.with_book(|book| {
        let trial = settlement.trial.as_ref().map(|trial| words(trial, book));
        (book.epoch, Plan::of(settlement, book), trial)
    });
    if epoch != settlement.epoch {
        return Ok(Settled::Fenced);
    }
    let planned = plan.rows();
    let half = plan.halve();
    let (recorded, delivered) = tokio::join!(
        record(rows, turn, settlement, &plan, trial),
        deliver::deliver(rows, settlement, half.as_ref())
    );
    // What is recorded is so, whatever became of the other half.
    rows.with_book(|book| {
        if let (Some(half), Ok(Some(_))) = (half, &delivered) {
            half.positions.iter().for_each(|position| book.remove(*position));
        }
        if let Ok(Some(_)) = recorded {
            plan.enter(book);
        }
    });
    rows.let_go().await;
    let (settled, changed) = deliver::both(recorded, delivered)?;
    if let Some(missed) =
        planned.checked_sub(changed).filter(|missed| *missed > 0 && settled == Settled::Done)
    {
        tracing::warn!(
            subscription = settlement.subscription,
            rows = missed,
            "rows were changed by somebody else while they were published here; they were left as they are"
        );
    }
    Ok(settled)
}

/// Records all that is planned. Answers how many rows were still ours, `None` if the lease is not.
async fn record(
    rows: &Rows,
    turn: &mut Turn<'_>,
    settlement: &Settlement,
    plan: &Plan,
    trial: Option<String>,
) -> Result<Option<usize>> {
    let deaths = settlement.trial.as_ref().map_or(0, |trial| i64::from(trial.deaths));
    let server = turn.incarnation()?;
    let Plan { done, retried, ended, returned, notes, forgotten, claims_over, .. } = plan;
    let answer = turn
        .query(
            rows.sql.settle,
            &[
                &settlement.subscription,
                &settlement.epoch.0,
                &trial,
                &deaths,
                &server.started,
                &server.timeline(),
                &done.ids,
                &done.stamps,
                &retried.ids,
                &retried.stamps,
                &retried.attempts,
                &retried.next,
                &ended.ids,
                &ended.stamps,
                &ended.attempts,
                &returned.ids,
                &returned.stamps,
                &notes.ids,
                &notes.keys,
                &notes.destinations,
                &notes.states,
                &notes.attempts,
                &notes.next,
                &notes.errors,
                forgotten,
                claims_over,
            ],
        )
        .await?;
    deliver::changed(turn, &answer)
}

/// The rows of a trial by their ids.
fn words(trial: &Trial, book: &Book) -> String {
    let ids: Vec<&str> =
        trial.positions.iter().filter_map(|position| book.get(*position)).map(|entry| &*entry.id).collect();
    ids.join(" ")
}
