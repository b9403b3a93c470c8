//! Settling: all outcomes in one transaction, fenced by the epoch.

use rusqlite::{Connection, params};

use super::super::failure::Attempt;
use super::super::lease::now;
use super::read::number;
use super::sql::{DONE, FAILED, Names, RETURNED};
use crate::Timestamp;
use crate::store::Epoch;
use crate::store::rows::plan::{Note, Outcome, Plan};

/// Records what was planned. Answers how many rows were still ours, `None` if the lease is not.
pub(super) fn record(
    tx: &Connection,
    names: &Names,
    subscription: &str,
    epoch: Epoch,
    plan: &Plan,
) -> Attempt<Option<usize>> {
    // Index: the primary key (name).
    let fence = "UPDATE postrider_row_subscriptions SET trial = ?3, trial_deaths = ?4, updated_at = ?5
                 WHERE name = ?1 AND epoch = ?2";
    let now = now(tx)?;
    let owns = tx.prepare_cached(fence)?.execute(params![
        subscription,
        epoch.0,
        plan.trial,
        plan.trial_deaths,
        now
    ])?;
    if owns == 0 {
        return Ok(None);
    }
    let mut changed = 0;
    let outcomes =
        [(&plan.done, DONE), (&plan.retried, FAILED), (&plan.ended, FAILED), (&plan.returned, RETURNED)];
    for (outcome, statement) in outcomes.into_iter().filter(|(outcome, _)| !outcome.ids.is_empty()) {
        changed += change(tx, &names.put_into(statement), outcome)?;
    }
    for id in &plan.forgotten {
        // Index: the primary key (row_id).
        tx.prepare_cached("DELETE FROM postrider_row_notes WHERE row_id = ?1")?.execute([number(id)])?;
    }
    for claim in &plan.claims_over {
        // Index: the primary key (number).
        tx.prepare_cached("DELETE FROM postrider_row_claims WHERE number = ?1")?.execute([claim])?;
    }
    plan.notes.iter().try_for_each(|row| note(tx, row, now))?;
    Ok(Some(changed))
}

fn change(tx: &Connection, statement: &str, outcome: &Outcome) -> Attempt<usize> {
    let mut statement = tx.prepare_cached(statement)?;
    // Not every outcome writes the count of attempts.
    let has_attempts = statement.parameter_count() > 3;
    let mut changed = 0;
    for (place, id) in outcome.ids.iter().enumerate() {
        let stamp = outcome.stamps[place].map(Timestamp::as_micros);
        let (id, marked) = (number(id), outcome.marked[place]);
        changed += match has_attempts {
            true => statement.execute(params![id, stamp, marked, outcome.attempts[place]])?,
            false => statement.execute(params![id, stamp, marked])?,
        };
    }
    Ok(changed)
}

fn note(tx: &Connection, note: &Note, now: i64) -> Attempt<()> {
    // Index: the primary key (row_id).
    let sql = "INSERT INTO postrider_row_notes AS n (row_id, key, destination, state, attempts, next_attempt_at,
                                                     last_error, parked_at, updated_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
               ON CONFLICT (row_id) DO UPDATE
               SET key = coalesce(excluded.key, n.key), destination = coalesce(excluded.destination, n.destination),
                   state = excluded.state, attempts = excluded.attempts,
                   next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error,
                   updated_at = excluded.updated_at";
    tx.prepare_cached(sql)?.execute(params![
        number(&note.id),
        note.key,
        note.destination,
        note.state,
        note.attempts,
        note.next_attempt_at.map(Timestamp::as_micros),
        note.last_error,
        now,
    ])?;
    Ok(())
}
