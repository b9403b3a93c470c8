//! The operator's commands: subscribe, pause, halt, accept a new history.

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Attempt;
use super::lease::{now, unknown};
use super::ledger::Ledger;
use super::log_tx::start_progress;
use super::settle::record;
use crate::store::subscription::require_found;
use crate::store::{Epoch, Settled, Start};

/// See [`Store::subscribe`](crate::store::Store::subscribe).
pub(super) fn subscribe(tx: &mut Connection, subscription: &str, start: Start) -> Attempt<bool> {
    // Index: the primary key (name).
    let created = tx
        .prepare_cached(
            "INSERT INTO postrider_subscriptions (name, floor, done, created_at, updated_at)
             VALUES (?1, 0, '0', ?2, ?2)
             ON CONFLICT (name) DO NOTHING",
        )?
        .execute(params![subscription, now(tx)?])?;
    if created > 0 {
        let progress = start_progress(tx, start)?;
        record(tx, subscription, Epoch::default(), &progress)?;
    }
    Ok(created > 0)
}

/// See [`Store::pause`](crate::store::Store::pause).
pub(super) fn pause(
    tx: &Connection,
    ledger: Ledger,
    subscription: &str,
    reason: Option<&str>,
) -> Attempt<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {subscriptions} SET paused = ?2, updated_at = ?3 WHERE name = ?1";
    let found = tx.prepare_cached(&ledger.put_into(sql))?.execute(params![subscription, reason, now(tx)?])?;
    Ok(require_found(subscription, found > 0)?)
}

/// See [`Store::pause_as_owner`](crate::store::Store::pause_as_owner).
pub(super) fn pause_as_owner(
    tx: &Connection,
    ledger: Ledger,
    subscription: &str,
    epoch: Epoch,
    reason: &str,
) -> Attempt<Settled> {
    if current_epoch(tx, ledger, subscription)? != epoch {
        return Ok(Settled::Fenced);
    }
    pause(tx, ledger, subscription, Some(reason))?;
    Ok(Settled::Done)
}

/// See [`Store::halt`](crate::store::Store::halt).
pub(super) fn halt(
    tx: &Connection,
    ledger: Ledger,
    subscription: &str,
    epoch: Epoch,
    reason: &str,
) -> Attempt<Settled> {
    if current_epoch(tx, ledger, subscription)? > epoch {
        return Ok(Settled::Fenced);
    }
    // Index: the primary key (name).
    let sql = "UPDATE {subscriptions} SET halted = ?2, updated_at = ?3 WHERE name = ?1";
    tx.prepare_cached(&ledger.put_into(sql))?.execute(params![subscription, reason, now(tx)?])?;
    Ok(Settled::Done)
}

/// The current epoch of a subscription.
fn current_epoch(tx: &Connection, ledger: Ledger, subscription: &str) -> Attempt<Epoch> {
    // Index: the primary key (name).
    let epoch = tx
        .prepare_cached(&ledger.put_into("SELECT epoch FROM {subscriptions} WHERE name = ?1"))?
        .query_row([subscription], |row| row.get(0))
        .optional()?
        .ok_or_else(|| unknown(subscription))?;
    Ok(Epoch(epoch))
}

/// See [`Store::accept_history`](crate::store::Store::accept_history). Raises the epoch and removes the lease, so that
/// an owner that still uses the old history cannot overwrite the new progress.
pub(super) fn accept_history(tx: &mut Connection, subscription: &str, start: Start) -> Attempt<()> {
    // Index: the primary key (name), of both tables.
    let epoch = tx
        .prepare_cached(
            "UPDATE postrider_subscriptions
             SET epoch = epoch + 1, halted = NULL
             WHERE name = ?1
             RETURNING epoch",
        )?
        .query_row([subscription], |row| row.get(0))
        .optional()?
        .ok_or_else(|| unknown(subscription))?;
    tx.prepare_cached("DELETE FROM postrider_leases WHERE name = ?1")?.execute([subscription])?;
    let progress = start_progress(tx, start)?;
    tx.prepare_cached("DELETE FROM postrider_parked WHERE subscription = ?1 AND position > ?2")?
        .execute(params![subscription, progress.done.floor().get()])?;
    // Rows whose position now holds another event. Indexes: the primary keys.
    tx.prepare_cached(
        "DELETE FROM postrider_parked
         WHERE subscription = ?1
           AND event_id <> (SELECT id FROM postrider_events AS e WHERE e.position = postrider_parked.position)",
    )?
    .execute([subscription])?;
    record(tx, subscription, Epoch(epoch), &progress)?;
    Ok(())
}
