//! Settling: progress and parked rows in one statement, fenced by the epoch.

use std::collections::HashSet;

use tokio_postgres::Row;

use super::history::{Incarnation, on_server, started, timeline};
use super::line::Turn;
use super::park::Rows;
use super::progress::{Columns, record};
use super::row::get;
use super::session::Work;
use super::statement::Param;
use crate::Result;
use crate::ledger::Progress;
use crate::store::{Settled, Settlement};

/// One statement, so that a relay that stops in the middle leaves no lock behind. It begins with the lock on
/// the progress row: a takeover waits for it or makes it find nothing, and then nothing else happens. Nor does
/// anything on another server than the lease was taken on: a standby that was promoted may have the same epoch,
/// and gives the positions it never received to other events.
///
/// Indexes: the primary keys (name), (subscription, position) and (position).
const SETTLE: &str = concat!(
    "WITH fence AS (",
    record!(),
    " AND ",
    on_server!("$17", "$18"),
    "    RETURNING name
     ), removed AS (
         DELETE FROM {schema}.parked AS p
         USING fence
         WHERE p.subscription = fence.name AND p.position = ANY ($9::bigint[])
     ), put AS (
         INSERT INTO {schema}.parked AS p (subscription, position, key, destination, state, attempts,
                                           next_attempt_at, last_error, event_id)
         SELECT fence.name, r.*, (SELECT id FROM ONLY {schema}.events WHERE position = r.position)
         FROM fence, unnest($10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[],
                            $15::timestamptz[], $16::text[])
                     AS r (position, key, destination, state, attempts, next_attempt_at, last_error)
         ON CONFLICT (subscription, position) DO UPDATE
         SET key = coalesce(excluded.key, p.key), destination = coalesce(excluded.destination, p.destination),
             state = excluded.state, attempts = excluded.attempts,
             next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error,
             updated_at = excluded.updated_at
     )
     SELECT EXISTS (SELECT FROM fence), ",
    on_server!("$17", "$18"),
);

/// A settlement as the parameters of [`SETTLE`].
struct Values {
    subscription: String,
    epoch: i64,
    progress: Columns,
    removed: Vec<i64>,
    put: Rows,
    started: String,
    timeline: String,
}

impl Values {
    fn of(settlement: Settlement, server: &Incarnation) -> Self {
        let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
        let put = Rows::new(park);
        // One statement cannot both remove a row and write it anew.
        let kept: HashSet<i64> = put.positions.iter().copied().collect();
        let removed: Vec<i64> = unpark
            .into_iter()
            .map(|position| position.get())
            .filter(|position| !kept.contains(position))
            .collect();
        Self {
            subscription,
            epoch: epoch.0,
            progress: Columns::of(&Progress { done, highest, trial }),
            removed,
            put,
            started: server.started.clone(),
            timeline: server.timeline().to_owned(),
        }
    }

    fn params(&self) -> [&dyn Param; 18] {
        let Self { subscription, epoch, progress: p, removed, put, started, timeline } = self;
        [
            subscription,
            epoch,
            &p.floor,
            &p.done,
            &p.highest_position,
            &p.highest_id,
            &p.trial,
            &p.trial_deaths,
            removed,
            &put.positions,
            &put.keys,
            &put.destinations,
            &put.states,
            &put.attempts,
            &put.next_attempts_at,
            &put.last_errors,
            started,
            timeline,
        ]
    }
}

/// What a settle did; `None` on another server than the lease was taken on.
fn settled(rows: &[Row]) -> Result<Option<Settled>> {
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(match (get(row, 0)?, get(row, 1)?) {
        (true, _) => Some(Settled::Done),
        (false, true) => Some(Settled::Fenced),
        (false, false) => None,
    })
}

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) async fn settle(turn: &mut Turn<'_>, settlement: Settlement) -> Result<Settled> {
    let values = Values::of(settlement, &turn.incarnation()?);
    let rows = turn.query(SETTLE, &values.params()).await?;
    match settled(&rows)? {
        Some(settled) => Ok(settled),
        None => Err(turn.give_up()),
    }
}

/// The same within a transaction that does more.
pub(super) async fn settle_in(
    work: &Work<'_>,
    settlement: Settlement,
    server: &Incarnation,
) -> Result<Settled> {
    let values = Values::of(settlement, server);
    let rows = work.query(SETTLE, &values.params()).await?;
    // Unlike a statement on its own, a transaction stays on the server where it began.
    Ok(settled(&rows)?.unwrap_or(Settled::Fenced))
}
