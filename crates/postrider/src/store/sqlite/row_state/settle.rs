//! Settling: all outcomes in one transaction, fenced by the epoch.

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::super::failure::Attempt;
use super::super::lease::now;
use super::sql::Names;
use crate::Timestamp;
use crate::store::Epoch;
use crate::store::row_state::plan::{Note, OutcomeRows, SettlePlan};

/// Records a plan. Returns how many rows were changed; `None` if the lease was lost.
pub(super) fn record(
    tx: &Connection,
    names: &Names,
    subscription: &str,
    epoch: Epoch,
    plan: &SettlePlan,
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
    let outcomes = plan.outcomes().into_iter().zip(names.sql.outcomes);
    for (outcome, statement) in outcomes.filter(|(outcome, _)| !outcome.ids.is_empty()) {
        changed += change(tx, &names.put_into(statement), outcome)?;
    }
    delete_notes(tx, &plan.obsolete_notes)?;
    for claim in &plan.finished_claims {
        // Index: the primary key (number).
        tx.prepare_cached("DELETE FROM postrider_row_claims WHERE number = ?1")?.execute([claim])?;
    }
    plan.notes.iter().try_for_each(|row| note(tx, row, now))?;
    Ok(Some(changed))
}

/// Changes the rows of an outcome, one statement each. If the table has nothing to change, each row counts as changed.
fn change(tx: &Connection, statement: &str, outcome: &OutcomeRows) -> Attempt<usize> {
    if statement.is_empty() {
        return Ok(outcome.ids.len());
    }
    let mut statement = tx.prepare_cached(statement)?;
    // Not every statement uses all parameters.
    let params = statement.parameter_count();
    let mut changed = 0;
    for (index, id) in outcome.ids.iter().enumerate() {
        let values: [Value; 4] = [
            id.clone().into(),
            outcome.marked_at[index].map(Timestamp::as_micros).into(),
            outcome.marked_attempts[index].into(),
            outcome.attempts[index].into(),
        ];
        changed += statement.execute(params_from_iter(values.into_iter().take(params)))?;
    }
    Ok(changed)
}

/// Deletes notes.
pub(super) fn delete_notes(tx: &Connection, ids: &[String]) -> Attempt<()> {
    for id in ids {
        // Index: the primary key (row_id).
        tx.prepare_cached("DELETE FROM postrider_row_notes WHERE row_id = ?1")?.execute([id])?;
        tx.prepare_cached("DELETE FROM postrider_row_refused WHERE row_id = ?1")?.execute([id])?;
    }
    Ok(())
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
        note.id,
        note.key,
        note.destination,
        note.state,
        note.attempts,
        note.next_attempt_at.map(Timestamp::as_micros),
        note.last_error,
        now,
    ])?;
    if let Some(refused) = note.refused {
        // Index: the primary key (row_id).
        let sql = "INSERT INTO postrider_row_refused (row_id, outcome, refused_at) VALUES (?1, ?2, ?3)
                   ON CONFLICT (row_id) DO UPDATE SET outcome = excluded.outcome";
        tx.prepare_cached(sql)?.execute(params![note.id, refused.as_str(), now])?;
    }
    Ok(())
}
