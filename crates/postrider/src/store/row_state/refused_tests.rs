//! Refused outcomes, one row at a time.

use super::*;
use crate::Timestamp;
use crate::layout::{RowLayout, RowTable};
use crate::store::Epoch;
use crate::store::row_state::load::{NotedRow, ParkedRows};
use crate::store::row_state::term_rows::{HandoutState, TermRow};

fn delivered(rows: usize) -> (TermRows, SettlePlan) {
    let (mut known, mut plan) = (TermRows::new(Epoch(1)), SettlePlan::default());
    for number in 0..rows {
        let row = TermRow::new(number.to_string(), HandoutState::HandedOut, 3);
        plan.done.push(known.insert(row.clone()), &row, 0, None);
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
        let recorded = match is_refused {
            true => Err(Error::new(Code::RowRefused, "frozen")),
            false => Ok(Some(plan.rows())),
        };
        assert_eq!(pieces.apply_result(plan, recorded, &mut known).unwrap(), Settled::Done);
    }
    assert!(statements <= 22, "{statements}");
    assert_eq!((known.len(), known.is_excluded("7")), (1, true), "it is known, and not handed out again");
}

/// A table that changes no row and reports no error. A check reads `rows_max` rows at a time. `noted` collects the rows
/// that are noted as delivered.
struct UnchangingTable {
    rows_max: usize,
    noted: Vec<String>,
}

impl Recorder for UnchangingTable {
    async fn record(&mut self, plan: Arc<SettlePlan>) -> Result<Option<usize>> {
        self.noted.extend(plan.notes.iter().map(|note| note.id.clone()));
        Ok(Some(0))
    }

    async fn unchanged(&mut self, ids: Vec<RowId>) -> Result<UnchangedRows> {
        let first_unread = ids.get(self.rows_max).cloned();
        Ok(UnchangedRows { ids: ids.into_iter().take(self.rows_max).collect(), first_unread })
    }
}

#[tokio::test]
async fn rows_beyond_the_budget_of_one_check_are_part_of_the_next_check() {
    let (known, plan) = delivered(10);
    let term = RowTerm::default();
    term.begin("mail".to_owned(), known);
    let mut table = UnchangingTable { rows_max: 4, noted: Vec::new() };
    let settled = settle(&mut table, &term, Pieces::of("mail", plan)).await.unwrap();
    assert_eq!(settled, Settled::Done);
    table.noted.sort_unstable();
    assert_eq!(table.noted, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    let out = term.with_rows(|known| (0..10).filter(|id| known.is_excluded(&id.to_string())).count());
    assert_eq!(out, 10, "none is handed out again");
}

#[test]
fn an_error_that_is_not_a_refusal_is_returned() {
    let (mut known, plan) = delivered(2);
    let mut pieces = Pieces::of("mail", plan);
    let plan = pieces.next(&known).unwrap();
    let lost = Err(Error::new(Code::StoreFailed, "gone"));
    assert_eq!(pieces.apply_result(plan, lost, &mut known).unwrap_err().code(), Code::StoreFailed);
    assert_eq!(known.len(), 2);
}

#[test]
fn the_note_of_a_refused_row_is_deleted_once_the_table_shows_it_as_delivered() {
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
    let table = RowTable::new(RowLayout::EventOutbox);
    let obsolete = |is_done| ParkedRows::of([note(is_done)], [], &table).unwrap().obsolete_notes;
    assert_eq!((obsolete(false), obsolete(true)), (vec![], vec!["7".to_owned()]));
}
