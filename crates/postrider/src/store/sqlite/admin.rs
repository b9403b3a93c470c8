//! The operator's commands: subscribe, pause, halt, accept a new history.

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Attempt;
use super::lease::{now, unknown};
use super::ledger::Ledger;
use super::log_tx::SqliteTx;
use super::settle::record;
use super::worker::poll_once;
use crate::ledger::Progress;
use crate::operate::{SubscriptionChange, SubscriptionPlan};
use crate::store::subscription::require_found;
use crate::store::subscription_tx::{self, SubscriptionTx};
use crate::store::{Epoch, Settled, Start};
use crate::{Position, Result};

/// See [`Store::subscribe`](crate::store::Store::subscribe).
pub(super) fn subscribe(tx: &mut Connection, subscription: &str, start: Start) -> Attempt<bool> {
    poll_once(subscription_tx::subscribe(&mut SqliteTx(tx), subscription, start))
}

/// See [`Store::accept_history`](crate::store::Store::accept_history).
pub(super) fn accept_history(tx: &mut Connection, subscription: &str, start: Start) -> Attempt<()> {
    poll_once(subscription_tx::accept_history(&mut SqliteTx(tx), subscription, start))
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
    async fn insert_subscription(&mut self, name: &str) -> Result<bool> {
        // Index: the primary key (name).
        let sql = "INSERT INTO postrider_subscriptions (name, floor, done, created_at, updated_at)
                   VALUES (?1, 0, '0', ?2, ?2)
                   ON CONFLICT (name) DO NOTHING";
        let insert =
            || -> Attempt<usize> { Ok(self.0.prepare_cached(sql)?.execute(params![name, now(self.0)?])?) };
        Ok(insert()? > 0)
    }

    async fn put_progress(&mut self, name: &str, epoch: Epoch, progress: &Progress) -> Result<()> {
        Ok(record(self.0, name, epoch, progress).map(drop)?)
    }

    async fn begin_epoch(&mut self, name: &str) -> Result<Option<Epoch>> {
        // Index: the primary key (name), of both tables.
        let sql = "UPDATE postrider_subscriptions
                   SET epoch = epoch + 1, halted = NULL
                   WHERE name = ?1
                   RETURNING epoch";
        let raise = || -> Attempt<Option<i64>> {
            self.0.prepare_cached("DELETE FROM postrider_leases WHERE name = ?1")?.execute([name])?;
            Ok(self.0.prepare_cached(sql)?.query_row([name], |row| row.get(0)).optional()?)
        };
        Ok(raise()?.map(Epoch))
    }

    async fn parked_above(&mut self, name: &str, floor: Position) -> Result<Vec<Position>> {
        // Index: the primary key (subscription, position).
        let sql = "SELECT position FROM postrider_parked WHERE subscription = ?1 AND position > ?2";
        Ok(self.all(sql, params![name, floor.get()], |row| row.get(0).map(Position::new))?)
    }

    async fn forget_replaced(&mut self, name: &str) -> Result<()> {
        // Indexes: the primary keys.
        let sql = "DELETE FROM postrider_parked
                   WHERE subscription = ?1
                     AND event_id <> (SELECT id FROM postrider_events AS e
                                      WHERE e.position = postrider_parked.position)";
        let forget = || -> Attempt<usize> { Ok(self.0.prepare_cached(sql)?.execute([name])?) };
        Ok(forget().map(drop)?)
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
