//! Settling: one statement for all outcomes, fenced by the epoch, and a second for half of many deliveries. What the
//! database refuses is settled again in smaller pieces.

use std::sync::Arc;

use super::super::connection::Guard;
use super::super::history::Incarnation;
use super::super::park::storable;
use super::super::row::get;
use super::super::session::Tx;
use super::super::statement::Param;
use super::super::time::Time;
use super::{Rows, deliver, lost, own, read};
use crate::store::row_state::plan::{Note, SettlePlan};
use crate::store::row_state::read::Which;
use crate::store::row_state::refused::{self, PAYLOADS_BYTES_MAX, Pieces, Recorder, Refused, Unchanged};
use crate::store::row_state::session_rows::RowId;
use crate::store::{Budget, Settled, Settlement};
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
    refused: Vec<Option<&'static str>>,
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
            all.refused.push(note.refused.map(Refused::as_str));
        }
        all
    }
}

/// Times as the driver sends them.
pub(super) fn times(times: &[Option<Timestamp>]) -> Vec<Option<Time>> {
    times.iter().map(|time| time.map(Time)).collect()
}

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) async fn settle(rows: &Rows, turn: &mut Guard<'_>, settlement: &Settlement) -> Result<Settled> {
    let (epoch, mut plan) = rows.with_rows(|known| (known.epoch, SettlePlan::of(settlement, known)));
    if epoch != settlement.epoch {
        return Ok(Settled::Fenced);
    }
    let half = deliver::half(rows, &mut plan);
    let mut pieces = Pieces::of(&settlement.subscription, plan);
    if let Some((half, helper)) = half
        && let Some(plan) = rows.with_rows(|known| pieces.next(known))
    {
        let half = pieces.beside(half);
        let (recorded, delivered) = tokio::join!(
            record(rows, turn, settlement, &plan),
            deliver::deliver(rows, settlement, helper, &half.done)
        );
        let changed = |answer: &Result<Option<usize>>| answer.as_ref().ok().copied().flatten();
        let traced =
            [rows.session.traced(&plan, changed(&recorded)), rows.session.traced(&half, changed(&delivered))];
        own::note(turn, &traced.concat()).await;
        // What is recorded is so, whatever became of the other half.
        let heard = rows
            .with_rows(|known| [pieces.heard(plan, recorded, known), pieces.heard(half, delivered, known)]);
        for settled in heard {
            if settled? == Settled::Fenced {
                return Ok(Settled::Fenced);
            }
        }
    }
    refused::settle(&mut Recording { rows, turn, settlement }, &rows.session, pieces).await
}

/// Records pieces of one settlement.
struct Recording<'a, 'b> {
    rows: &'a Rows,
    turn: &'a mut Guard<'b>,
    settlement: &'a Settlement,
}

impl Recorder for Recording<'_, '_> {
    async fn record(&mut self, plan: Arc<SettlePlan>) -> Result<Option<usize>> {
        let changed = record(self.rows, self.turn, self.settlement, &plan).await?;
        own::note(self.turn, &self.rows.session.traced(&plan, changed)).await;
        Ok(changed)
    }

    async fn unchanged(&mut self, ids: Vec<RowId>) -> Result<Unchanged> {
        let Rows { sql, table, .. } = self.rows;
        let budget = Budget { events_max: ids.len(), bytes_max: PAYLOADS_BYTES_MAX };
        let read = read::read(self.turn, sql, table, &ids, budget, Which::Any).await?;
        Ok(read.unchanged(sql.claim.is_some()))
    }
}

/// A plan as the parameters of a settle.
struct Values<'a> {
    settlement: &'a Settlement,
    plan: &'a SettlePlan,
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
    fn of(settlement: &'a Settlement, plan: &'a SettlePlan, server: &Incarnation) -> Self {
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

    fn params(&self) -> [&dyn Param; 27] {
        let SettlePlan { done, retried, ended, returned, forgotten, claims_over, trial, .. } = self.plan;
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
            &self.notes.refused,
        ]
    }
}

/// Records all that is planned. Answers how many rows were still ours, `None` if the lease is not.
async fn record(
    rows: &Rows,
    turn: &mut Guard<'_>,
    settlement: &Settlement,
    plan: &SettlePlan,
) -> Result<Option<usize>> {
    let values = Values::of(settlement, plan, &turn.incarnation()?);
    let answer = turn.query(rows.sql.settle, &values.params()).await?;
    deliver::changed(turn, &answer)
}

/// The same within a transaction that does more.
pub(super) async fn record_in(
    rows: &Rows,
    work: &Tx<'_>,
    settlement: &Settlement,
    plan: &SettlePlan,
    server: &Incarnation,
) -> Result<Option<usize>> {
    let values = Values::of(settlement, plan, server);
    let answer = work.query_opt(rows.sql.settle, &values.params()).await?.ok_or_else(lost)?;
    match get::<bool>(&answer, 0)? {
        true => Ok(Some(usize::try_from(get::<i64>(&answer, 2)?).unwrap_or(0))),
        false => Ok(None),
    }
}
