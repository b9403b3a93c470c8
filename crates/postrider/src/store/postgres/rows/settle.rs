//! Settling: one statement for all outcomes, fenced by the epoch, and a second for half of many deliveries.

use super::super::line::Turn;
use super::super::park::storable;
use super::super::time::Time;
use super::Rows;
use super::deliver;
use crate::store::rows::plan::{Note, Plan, tell_missed};
use crate::store::{Settled, Settlement};
use crate::{Result, Timestamp};

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
    fn of(notes: &[Note]) -> Self {
        let mut all = Self::default();
        for note in notes {
            all.ids.push(note.id.clone());
            all.keys.push(note.key.clone().map(storable));
            all.destinations.push(note.destination.clone().map(storable));
            all.states.push(note.state);
            all.attempts.push(note.attempts.into());
            all.next.push(note.next_attempt_at.map(Time));
            all.errors.push(note.last_error.clone().map(storable));
        }
        all
    }
}

/// Times as the driver sends them.
pub(super) fn times(times: &[Option<Timestamp>]) -> Vec<Option<Time>> {
    times.iter().map(|time| time.map(Time)).collect()
}

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) async fn settle(rows: &Rows, turn: &mut Turn<'_>, settlement: &Settlement) -> Result<Settled> {
    let (epoch, mut plan) = rows.with_book(|book| (book.epoch, Plan::of(settlement, book)));
    if epoch != settlement.epoch {
        return Ok(Settled::Fenced);
    }
    let planned = plan.rows();
    let (half, helper) = deliver::half(rows, &mut plan).unzip();
    let (recorded, delivered) = tokio::join!(
        record(rows, turn, settlement, &plan),
        deliver::deliver(rows, settlement, helper, half.as_ref())
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
    let (settled, changed) = deliver::both(recorded, delivered)?;
    if settled == Settled::Done {
        tell_missed(&settlement.subscription, planned, changed);
    }
    Ok(settled)
}

/// Records all that is planned. Answers how many rows were still ours, `None` if the lease is not.
async fn record(
    rows: &Rows,
    turn: &mut Turn<'_>,
    settlement: &Settlement,
    plan: &Plan,
) -> Result<Option<usize>> {
    let server = turn.incarnation()?;
    let Plan { done, retried, ended, returned, forgotten, claims_over, trial, .. } = plan;
    let (notes, deaths) = (Notes::of(&plan.notes), i64::from(plan.trial_deaths));
    let answer = turn
        .query(
            rows.sql.settle,
            &[
                &settlement.subscription,
                &settlement.epoch.0,
                trial,
                &deaths,
                &server.started,
                &server.timeline(),
                &done.ids,
                &times(&done.stamps),
                &retried.ids,
                &times(&retried.stamps),
                &retried.attempts,
                &times(&retried.next),
                &ended.ids,
                &times(&ended.stamps),
                &ended.attempts,
                &returned.ids,
                &times(&returned.stamps),
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
