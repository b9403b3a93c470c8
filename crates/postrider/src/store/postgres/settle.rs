//! Settling: progress and parked rows in one statement, fenced by the epoch.

use std::collections::HashSet;

use super::history::{on_server, started, timeline};
use super::line::Turn;
use super::park::Rows;
use super::progress::{Columns, record};
use super::row::get;
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
         SELECT fence.name, r.*, (SELECT id FROM {schema}.events WHERE position = r.position)
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

/// See [`Store::settle`](crate::store::Store::settle).
pub(super) async fn settle(turn: &mut Turn<'_>, settlement: Settlement) -> Result<Settled> {
    let Settlement { subscription, epoch, done, highest, trial, park, unpark } = settlement;
    let p = Columns::of(&Progress { done, highest, trial });
    let put = Rows::new(park);
    // One statement cannot both remove a row and write it anew.
    let kept: HashSet<i64> = put.positions.iter().copied().collect();
    let removed: Vec<i64> = unpark
        .into_iter()
        .map(|position| position.get())
        .filter(|position| !kept.contains(position))
        .collect();
    let server = turn.incarnation()?;
    let rows = turn
        .query(
            SETTLE,
            &[
                &subscription,
                &epoch.0,
                &p.floor,
                &p.done,
                &p.highest_position,
                &p.highest_id,
                &p.trial,
                &p.trial_deaths,
                &removed,
                &put.positions,
                &put.keys,
                &put.destinations,
                &put.states,
                &put.attempts,
                &put.next_attempts_at,
                &put.last_errors,
                &server.started,
                &server.timeline(),
            ],
        )
        .await?;
    let (done, same_server) = match rows.first() {
        Some(row) => (get(row, 0)?, get(row, 1)?),
        None => (false, false),
    };
    match (done, same_server) {
        (true, _) => Ok(Settled::Done),
        (false, true) => Ok(Settled::Fenced),
        (false, false) => Err(turn.give_up()),
    }
}
