//! What the database refuses, one outcome at a time.

use super::*;
use crate::Timestamp;
use crate::layout::{RowLayout, RowTable};
use crate::store::Epoch;
use crate::store::row_state::load::{NotedRow, SetAside};
use crate::store::row_state::session_rows::{HandoutState, SessionRow};

fn delivered(rows: usize) -> (SessionRows, SettlePlan) {
    let (mut known, mut plan) = (SessionRows::new(Epoch(1)), SettlePlan::default());
    for number in 0..rows {
        let id: RowId = number.to_string().into();
        plan.done.ids.push(id.to_string());
        plan.done.positions.push(known.enter(SessionRow {
            id,
            stage: HandoutState::HandedOut,
            is_noted: false,
            tried_before: 0,
            limit: 3,
            is_given_up: false,
            claim: None,
        }));
        plan.done.stamps.push(None);
        plan.done.marked.push(None);
        plan.done.attempts.push(0);
        plan.done.next.push(None);
    }
    (known, plan)
}

#[test]
fn one_refused_row_costs_about_two_statements_per_halving() {
    let (mut known, plan) = delivered(1_000);
    let mut pieces = Pieces::of("mail", plan);
    let mut statements = 0;
    while let Some(plan) = pieces.next(&known) {
        statements += 1;
        let is_refused = plan.done.ids.iter().any(|id| id == "7");
        let answer = match is_refused {
            true => Err(Error::new(Code::RowRefused, "frozen")),
            false => Ok(Some(plan.rows())),
        };
        assert_eq!(pieces.apply_answer(plan, answer, &mut known).unwrap(), Settled::Done);
    }
    assert!(statements <= 22, "{statements}");
    assert_eq!((known.len(), known.is_out("7")), (1, true), "it is known, and not handed out again");
}

/// A table that changes nothing, without an error, and shows so many rows at a time. It tells which are noted as
/// delivered.
struct Silent {
    rows_max: usize,
    noted: Vec<String>,
}

impl Recorder for Silent {
    async fn record(&mut self, plan: Arc<SettlePlan>) -> Result<Option<usize>> {
        self.noted.extend(plan.notes.iter().map(|note| note.id.clone()));
        Ok(Some(0))
    }

    async fn unchanged(&mut self, ids: Vec<RowId>) -> Result<Unchanged> {
        let left = ids.get(self.rows_max).cloned();
        Ok(Unchanged { ids: ids.into_iter().take(self.rows_max).collect(), left })
    }
}

#[tokio::test]
async fn rows_beyond_the_byte_limit_of_one_read_are_read_in_the_next() {
    let (known, plan) = delivered(10);
    let session = RowSession::default();
    session.begin("mail".to_owned(), known);
    let mut table = Silent { rows_max: 4, noted: Vec::new() };
    let settled = settle(&mut table, &session, Pieces::of("mail", plan)).await.unwrap();
    assert_eq!(settled, Settled::Done);
    table.noted.sort_unstable();
    assert_eq!(table.noted, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    let out = session.with_rows(|known| (0..10).filter(|id| known.is_out(&id.to_string())).count());
    assert_eq!(out, 10, "none is handed out again");
}

#[test]
fn an_error_that_is_not_a_refusal_is_returned() {
    let (mut known, plan) = delivered(2);
    let mut pieces = Pieces::of("mail", plan);
    let plan = pieces.next(&known).unwrap();
    let lost = Err(Error::new(Code::StoreFailed, "gone"));
    assert_eq!(pieces.apply_answer(plan, lost, &mut known).unwrap_err().code(), Code::StoreFailed);
    assert_eq!(known.len(), 2);
}

#[test]
fn a_refused_row_is_forgotten_once_it_is_marked_as_delivered() {
    let note = |is_done| NotedRow {
        id: "7".to_owned(),
        key: None,
        destination: None,
        state: "dead".to_owned(),
        attempts: 0,
        next_attempt_at: None,
        last_error: None,
        created: Some(Timestamp::from_micros(1)),
        is_done,
        is_given_up: false,
        limit: None,
        refused: Some(Refused::Delivered),
    };
    let table = RowTable::new(RowLayout::EventOutbox).unwrap();
    let stale = |is_done| SetAside::of([note(is_done)], [], &table).unwrap().stale;
    assert_eq!((stale(false), stale(true)), (vec![], vec!["7".to_owned()]));
}
