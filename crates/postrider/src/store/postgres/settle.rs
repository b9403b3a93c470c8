//! Settling: progress and parked rows in one statement, fenced by the epoch.

use std::collections::HashSet;

use tokio_postgres::Row;

use super::connection::Guard;
use super::history::{Incarnation, on_server, started, timeline};
use super::park::{Rows, seal};
use super::progress::{Columns, record};
use super::row::get;
use super::session::Tx;
use super::statement::Param;
use crate::Result;
use crate::ledger::{KnownRows, Progress};
use crate::store::{Settled, Settlement};

/// One statement, so that a relay that stops in the middle leaves no lock behind. It begins with the lock on
/// the progress row: a takeover waits for it or makes it find nothing, and then nothing else happens. Nor does
/// anything on another server than the lease was taken on: a standby that was promoted may have the same epoch,
/// and gives the positions it never received to other events.
///
/// Of the parked rows, one that another process has changed is left alone.
///
/// Indexes: the primary keys (name), (subscription, position) and (position).
const SETTLE: &str = concat!(
    "WITH fence AS (",
    record!(),
    " AND ",
    on_server!("$17", "$18"),
    "    RETURNING name
     ), r AS MATERIALIZED (
         SELECT * FROM unnest($10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[],
                              $15::timestamptz[], $16::text[], $20::text[])
                       AS r (position, key, destination, state, attempts, next_attempt_at, last_error, seal)
     ), removed AS (
         DELETE FROM {schema}.parked AS p
         USING fence, unnest($9::bigint[], $19::text[]) AS r (position, seal)
         WHERE p.subscription = fence.name AND p.position = r.position
           AND (r.seal = '*' OR r.seal = ",
    seal!(),
    ")
     ), changed AS (
         UPDATE {schema}.parked AS p
         SET key = coalesce(r.key, p.key), destination = coalesce(r.destination, p.destination),
             state = r.state, attempts = r.attempts, next_attempt_at = r.next_attempt_at,
             last_error = r.last_error, updated_at = clock_timestamp()
         FROM fence, r
         WHERE p.subscription = fence.name AND p.position = r.position
           AND (r.seal = '*' OR r.seal = ",
    seal!(),
    ")
     ), put AS (
         INSERT INTO {schema}.parked (subscription, position, key, destination, state, attempts,
                                      next_attempt_at, last_error, event_id)
         SELECT fence.name, r.position, r.key, r.destination, r.state, r.attempts, r.next_attempt_at,
                r.last_error, (SELECT id FROM ONLY {schema}.events WHERE position = r.position)
         FROM fence, r
         WHERE r.seal IS NULL OR r.seal = '*'
         ON CONFLICT (subscription, position) DO NOTHING
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
    removed_seals: Vec<Option<String>>,
    put: Rows,
    started: String,
    timeline: String,
}

impl Values {
    fn of(settlement: Settlement, server: &Incarnation, known: &KnownRows) -> Self {
        let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
        let put = Rows::new(park, epoch, known);
        // One statement cannot both remove a row and write it again.
        let kept: HashSet<i64> = put.positions.iter().copied().collect();
        let removed = unpark.into_iter().filter(|position| !kept.contains(&position.get()));
        let (removed, removed_seals) = removed
            .map(|position| (position.get(), known.expected(epoch, position).map(str::to_owned)))
            .unzip();
        Self {
            subscription,
            epoch: epoch.0,
            progress: Columns::of(&Progress { done, highest, trial }),
            removed,
            removed_seals,
            put,
            started: server.started.clone(),
            timeline: server.timeline().to_owned(),
        }
    }

    fn params(&self) -> [&dyn Param; 20] {
        let Self { subscription, epoch, progress: p, removed, removed_seals, put, started, timeline } = self;
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
            removed_seals,
            &put.seals,
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
pub(super) async fn settle(conn: &mut Guard<'_>, settlement: Settlement) -> Result<Settled> {
    let server = conn.incarnation()?;
    let name = settlement.subscription.clone();
    let values = Values::of(settlement, &server, conn.known(&name));
    let rows = conn.query(SETTLE, &values.params()).await?;
    match settled(&rows)? {
        Some(settled) => Ok(settled),
        None => Err(conn.give_up()),
    }
}

/// The same within a transaction that does more.
pub(super) async fn settle_in(tx: &Tx<'_>, settlement: Settlement, server: &Incarnation) -> Result<Settled> {
    let values = Values::of(settlement, server, &KnownRows::default());
    let rows = tx.query(SETTLE, &values.params()).await?;
    // Unlike a statement on its own, a transaction stays on the server where it began.
    Ok(settled(&rows)?.unwrap_or(Settled::Fenced))
}
