//! Settling: one statement for all outcomes, fenced by the epoch, and another for half of many deliveries.

use tokio_postgres::Row;

use super::super::connection::Guard;
use super::super::history::Incarnation;
use super::super::park::storable;
use super::super::row::get;
use super::super::session::Tx;
use super::super::statement::Param;
use super::super::time::Time;
use super::connection::PostgresRows;
use crate::store::Settlement;
use crate::store::row_state::lease_lost;
use crate::store::row_state::plan::{Note, OutcomeRows, SettlePlan};
use crate::store::row_state::refused::Refused;
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

/// Times in the driver's type.
fn times(times: &[Option<Timestamp>]) -> Vec<Option<Time>> {
    times.iter().map(|time| time.map(Time)).collect()
}

/// The parameters of a settle.
struct Values<'a> {
    settlement: &'a Settlement,
    plan: &'a SettlePlan,
    deaths: i64,
    started: String,
    timeline: String,
    done_marked_at: Vec<Option<Time>>,
    retried_marked_at: Vec<Option<Time>>,
    retried_next: Vec<Option<Time>>,
    given_up_marked_at: Vec<Option<Time>>,
    unmarked_marked_at: Vec<Option<Time>>,
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
            done_marked_at: times(&plan.done.marked_at),
            retried_marked_at: times(&plan.retried.marked_at),
            retried_next: times(&plan.retried.next_attempt_at),
            given_up_marked_at: times(&plan.given_up.marked_at),
            unmarked_marked_at: times(&plan.unmarked.marked_at),
            notes: Notes::of(&plan.notes),
        }
    }

    fn params(&self) -> [&dyn Param; 27] {
        let SettlePlan { done, retried, given_up, unmarked, obsolete_notes, finished_claims, trial, .. } =
            self.plan;
        [
            &self.settlement.subscription,
            &self.settlement.epoch.0,
            trial,
            &self.deaths,
            &self.started,
            &self.timeline,
            &done.ids,
            &self.done_marked_at,
            &retried.ids,
            &self.retried_marked_at,
            &retried.attempts,
            &self.retried_next,
            &given_up.ids,
            &self.given_up_marked_at,
            &given_up.attempts,
            &unmarked.ids,
            &self.unmarked_marked_at,
            &self.notes.ids,
            &self.notes.keys,
            &self.notes.destinations,
            &self.notes.states,
            &self.notes.attempts,
            &self.notes.next,
            &self.notes.errors,
            obsolete_notes,
            finished_claims,
            &self.notes.refused,
        ]
    }
}

/// Records a plan. Returns how many rows were changed; `None` if the lease was lost.
pub(super) async fn record(
    rows: &PostgresRows,
    conn: &mut Guard<'_>,
    settlement: &Settlement,
    plan: &SettlePlan,
) -> Result<Option<usize>> {
    let values = Values::of(settlement, plan, &conn.server()?);
    let answer = conn.query(rows.sql.settle, &values.params()).await?;
    changed(conn, &answer)
}

/// Records half of many deliveries, in parallel with a settle. Each half is a fenced transaction: if the other half
/// fails, the recorded rows were still delivered.
pub(super) async fn record_deliveries(
    rows: &PostgresRows,
    conn: &mut Guard<'_>,
    settlement: &Settlement,
    delivered: &OutcomeRows,
) -> Result<Option<usize>> {
    let server = conn.server()?;
    let answer = conn
        .query(
            rows.sql.deliver,
            &[
                &settlement.subscription,
                &settlement.epoch.0,
                &server.started,
                &server.timeline(),
                &delivered.ids,
                &times(&delivered.marked_at),
            ],
        )
        .await?;
    changed(conn, &answer)
}

/// How many rows a fenced statement changed; `None` if the lease was lost.
fn changed(conn: &mut Guard<'_>, answer: &[Row]) -> Result<Option<usize>> {
    let Some(row) = answer.first() else { return Err(lease_lost()) };
    match (get::<bool>(row, 0)?, get::<bool>(row, 1)?) {
        (true, _) => Ok(Some(usize::try_from(get::<i64>(row, 2)?).unwrap_or(0))),
        (false, true) => Ok(None),
        (false, false) => Err(conn.give_up()),
    }
}

/// The same as a step of a transaction.
pub(super) async fn record_in(
    rows: &PostgresRows,
    tx: &Tx<'_>,
    settlement: &Settlement,
    plan: &SettlePlan,
    server: &Incarnation,
) -> Result<Option<usize>> {
    let values = Values::of(settlement, plan, server);
    let answer = tx.query_opt(rows.sql.settle, &values.params()).await?.ok_or_else(lease_lost)?;
    match get::<bool>(&answer, 0)? {
        true => Ok(Some(usize::try_from(get::<i64>(&answer, 2)?).unwrap_or(0))),
        false => Ok(None),
    }
}
