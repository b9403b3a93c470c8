//! Settling: progress and parked rows in one statement, fenced by the epoch.

use std::collections::HashSet;

use super::line::Turn;
use super::park::Rows;
use super::progress::{Columns, record};
use crate::Result;
use crate::ledger::Progress;
use crate::store::{Settled, Settlement};

/// One statement, so that a relay that stops in the middle leaves no lock behind. It begins with the lock on
/// the progress row: a takeover waits for it or makes it find nothing, and then nothing else happens.
///
/// Indexes: the primary keys (name) and (subscription, position).
const SETTLE: &str = concat!(
    "WITH fence AS (",
    record!(),
    "    RETURNING name
     ), removed AS (
         DELETE FROM {schema}.parked AS p
         USING fence
         WHERE p.subscription = fence.name AND p.position = ANY ($9::bigint[])
     ), put AS (
         INSERT INTO {schema}.parked AS p (subscription, position, key, destination, state, attempts,
                                           next_attempt_at, last_error)
         SELECT fence.name, r.*
         FROM fence, unnest($10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[],
                            $15::timestamptz[], $16::text[]) AS r
         ON CONFLICT (subscription, position) DO UPDATE
         SET key = coalesce(excluded.key, p.key), destination = coalesce(excluded.destination, p.destination),
             state = excluded.state, attempts = excluded.attempts,
             next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error,
             updated_at = excluded.updated_at
     )
     SELECT 1 FROM fence"
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
    let fenced = turn
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
            ],
        )
        .await?
        .is_empty();
    Ok(if fenced { Settled::Fenced } else { Settled::Done })
}
