//! Settling: one statement for all outcomes, fenced by the epoch, and a second for half of many deliveries.

use super::super::history::Incarnation;
use super::super::line::Turn;
use super::super::park::storable;
use super::super::row::get;
use super::super::session::Work;
use super::super::statement::Param;
use super::super::time::Time;
use super::{Rows, deliver, lost, own};
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
    let delivered_here = rows.session.traced(&plan.done);
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
        // Where others had a hand in it, nobody knows which rows were theirs.
        if changed == planned {
            own::note(turn, &delivered_here).await;
        }
    }
    Ok(settled)
}

/// A plan as the parameters of a settle.
struct Values<'a> {
    settlement: &'a Settlement,
    plan: &'a Plan,
    deaths: i64,
    started: String,
    timeline: String,
    done_stamps: Vec<Option<Time>>,
    retried_stamps: Vec<Option<Time>>,
    retried_next: Vec<Option<Time>>,
    ended_stamps: Vec<Option<Time>>,
    returned_stamps: Vec<Option<Time>>,
    notes: Notes,
}

impl<'a> Values<'a> {
    fn of(settlement: &'a Settlement, plan: &'a Plan, server: &Incarnation) -> Self {
        Self {
            settlement,
            plan,
            deaths: i64::from(plan.trial_deaths),
            started: server.started.clone(),
            timeline: server.timeline().to_owned(),
            done_stamps: times(&plan.done.stamps),
            retried_stamps: times(&plan.retried.stamps),
            retried_next: times(&plan.retried.next),
            ended_stamps: times(&plan.ended.stamps),
            returned_stamps: times(&plan.returned.stamps),
            notes: Notes::of(&plan.notes),
        }
    }

    fn params(&self) -> [&dyn Param; 26] {
        let Plan { done, retried, ended, returned, forgotten, claims_over, trial, .. } = self.plan;
        [
            &self.settlement.subscription,
            &self.settlement.epoch.0,
            trial,
            &self.deaths,
            &self.started,
            &self.timeline,
            &done.ids,
            &self.done_stamps,
            &retried.ids,
            &self.retried_stamps,
            &retried.attempts,
            &self.retried_next,
            &ended.ids,
            &self.ended_stamps,
            &ended.attempts,
            &returned.ids,
            &self.returned_stamps,
            &self.notes.ids,
            &self.notes.keys,
            &self.notes.destinations,
            &self.notes.states,
            &self.notes.attempts,
            &self.notes.next,
            &self.notes.errors,
            forgotten,
            claims_over,
        ]
    }
}

/// Records all that is planned. Answers how many rows were still ours, `None` if the lease is not.
async fn record(
    rows: &Rows,
    turn: &mut Turn<'_>,
    settlement: &Settlement,
    plan: &Plan,
) -> Result<Option<usize>> {
    let values = Values::of(settlement, plan, &turn.incarnation()?);
    let answer = turn.query(rows.sql.settle, &values.params()).await?;
    deliver::changed(turn, &answer)
}

/// The same within a transaction that does more.
pub(super) async fn record_in(
    rows: &Rows,
    work: &Work<'_>,
    settlement: &Settlement,
    plan: &Plan,
    server: &Incarnation,
) -> Result<Option<usize>> {
    let values = Values::of(settlement, plan, server);
    let answer = work.query_opt(rows.sql.settle, &values.params()).await?.ok_or_else(lost)?;
    match get::<bool>(&answer, 0)? {
        true => Ok(Some(usize::try_from(get::<i64>(&answer, 2)?).unwrap_or(0))),
        false => Ok(None),
    }
}
