//! The operator's commands: subscribe, pause, halt, accept a new history.

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Attempt;
use super::lease::{now, unknown};
use super::ledger::Ledger;
use super::log_tx::{SqliteTx, start_progress};
use super::operate;
use super::settle::record;
use super::worker::poll_once;
use crate::Result;
use crate::ledger::Intervals;
use crate::operate::{SubscriptionChange, SubscriptionPlan};
use crate::store::log_tx::start_audit;
use crate::store::subscription::require_found;
use crate::store::subscription_tx::{self, SubscriptionTx};
use crate::store::{Epoch, Settled, Start};

/// See [`Store::subscribe`](crate::store::Store::subscribe).
pub(super) fn subscribe(tx: &mut Connection, subscription: &str, start: Start) -> Attempt<bool> {
    let Some(done) = create(tx, subscription, start)? else { return Ok(false) };
    if let Some((record, targets)) = start_audit(start, &done) {
        operate::insert_audit(tx, Some(subscription), &record, 0, &targets)?;
    }
    Ok(true)
}

/// Creates a subscription without an audit row. Returns the positions that it skips; `None` if it exists.
pub(super) fn create(tx: &mut Connection, subscription: &str, start: Start) -> Attempt<Option<Intervals>> {
    // Index: the primary key (name).
    let created = tx
        .prepare_cached(
            "INSERT INTO postrider_subscriptions (name, floor, done, created_at, updated_at)
             VALUES (?1, 0, '0', ?2, ?2)
             ON CONFLICT (name) DO NOTHING",
        )?
        .execute(params![subscription, now(tx)?])?;
    if created == 0 {
        return Ok(None);
    }
    let progress = start_progress(tx, start)?;
    record(tx, subscription, Epoch::default(), &progress)?;
    Ok(Some(progress.done))
}

/// See [`Store::change_subscription`](crate::store::Store::change_subscription).
pub(super) fn change(tx: &mut Connection, change: &SubscriptionChange) -> Attempt<bool> {
    poll_once(subscription_tx::change(&mut SqliteTx(tx), change))
}

/// See [`Store::plan_subscription`](crate::store::Store::plan_subscription).
pub(super) fn plan(snapshot: &mut Connection, name: &str, start: Start) -> Attempt<SubscriptionPlan> {
    poll_once(subscription_tx::plan(&mut SqliteTx(snapshot), name, start))
}

impl SubscriptionTx for SqliteTx<'_> {
    async fn create(&mut self, name: &str, start: Start) -> Result<bool> {
        Ok(create(self.0, name, start)?.is_some())
    }

    async fn restart(&mut self, name: &str, start: Start) -> Result<()> {
        Ok(accept_history(self.0, name, start)?)
    }

    async fn delete_subscription(&mut self, name: &str) -> Result<()> {
        let delete = || -> Attempt<()> {
            // Indexes: the primary keys, which begin with the subscription.
            for sql in [
                "DELETE FROM postrider_parked WHERE subscription = ?1",
                "DELETE FROM postrider_relays WHERE subscription = ?1",
                "DELETE FROM postrider_leases WHERE name = ?1",
                "DELETE FROM postrider_subscriptions WHERE name = ?1",
            ] {
                self.0.execute(sql, [name])?;
            }
            Ok(())
        };
        Ok(delete()?)
    }
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
