//! The operator's commands: subscribe, pause, halt, accept a new history.

use super::lease::unknown;
use super::progress;
use super::row;
use super::session::{Access, Session, Tx, params};
use super::settle::put_progress;
use crate::ledger::Progress;
use crate::store::subscription::require_found;
use crate::store::subscription_tx::SubscriptionTx;
use crate::store::{Epoch, Settled};
use crate::{Position, Result};

/// Whether the subscription exists.
pub(super) async fn is_known(session: &mut Session, subscription: &str) -> Result<bool> {
    // Index: the primary key (name).
    let sql = "SELECT 1 FROM {schema}.subscriptions WHERE name = ?";
    Ok(!session.autocommit(Access::Reads, sql, params![subscription]).await?.is_empty())
}

impl SubscriptionTx for Tx<'_> {
    async fn insert_subscription(&mut self, name: &str) -> Result<bool> {
        if progress::load(self, name).await?.is_some() {
            return Ok(false);
        }
        let history = self.server().history.clone();
        // Index: the primary key (name).
        let sql = "INSERT INTO {schema}.subscriptions (name, history, done) VALUES (?, ?, '0')";
        self.execute(sql, params![name, history]).await.map(|_| true)
    }

    async fn put_progress(&mut self, name: &str, epoch: Epoch, progress: &Progress) -> Result<()> {
        put_progress(self, name, epoch, progress).await
    }

    async fn begin_epoch(&mut self, name: &str) -> Result<Option<Epoch>> {
        let history = self.server().history.clone();
        // Index: the primary key (name), of both tables.
        let Some(row) = progress::lock(self, name).await? else { return Ok(None) };
        let epoch = Epoch(row.epoch.0 + 1);
        let sql = "UPDATE {schema}.subscriptions SET epoch = ?, halted = NULL, history = ? WHERE name = ?";
        self.execute(sql, params![epoch.0, history, name]).await?;
        self.execute("DELETE FROM {schema}.leases WHERE name = ?", params![name]).await?;
        // In another history these positions may hold other events.
        self.execute("DELETE FROM {schema}.empty_positions WHERE subscription = ?", params![name]).await?;
        Ok(Some(epoch))
    }

    async fn parked_above(&mut self, name: &str, floor: Position) -> Result<Vec<Position>> {
        // Index: the primary key (subscription, position).
        let sql = "SELECT position FROM {schema}.parked WHERE subscription = ? AND position > ?";
        let rows = self.query(sql, params![name, floor.get()]).await?;
        rows.iter().map(|row| row::position(row, 0)).collect()
    }

    async fn forget_replaced(&mut self, name: &str) -> Result<()> {
        // Indexes: the primary keys (subscription, position) and (position).
        let sql = "DELETE FROM {schema}.parked
                   WHERE subscription = ?
                     AND EXISTS (SELECT 1 FROM {schema}.events AS e
                                 WHERE e.position = parked.position AND e.id <> parked.event_id)";
        self.execute(sql, params![name]).await.map(drop)
    }

    async fn delete_subscription(&mut self, name: &str) -> Result<()> {
        // Indexes: the primary keys, which begin with the subscription.
        for sql in [
            "DELETE FROM {schema}.parked WHERE subscription = ?",
            "DELETE FROM {schema}.relays WHERE subscription = ?",
            "DELETE FROM {schema}.empty_positions WHERE subscription = ?",
            "DELETE FROM {schema}.leases WHERE name = ?",
            "DELETE FROM {schema}.subscriptions WHERE name = ?",
        ] {
            self.execute(sql, params![name]).await?;
        }
        Ok(())
    }
}

/// See [`Store::pause`](crate::store::Store::pause).
pub(super) async fn pause(tx: &mut Tx<'_>, subscription: &str, reason: Option<&str>) -> Result<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions SET paused = ?, updated_at = UTC_TIMESTAMP(6) WHERE name = ?";
    require_found(subscription, tx.execute(sql, params![reason, subscription]).await? > 0)
}

/// See [`Store::pause_as_owner`](crate::store::Store::pause_as_owner).
pub(super) async fn pause_as_owner(
    tx: &mut Tx<'_>,
    subscription: &str,
    epoch: Epoch,
    reason: &str,
) -> Result<Settled> {
    let row = progress::lock(tx, subscription).await?.ok_or_else(|| unknown(subscription))?;
    if row.epoch != epoch {
        return Ok(Settled::Fenced);
    }
    pause(tx, subscription, Some(reason)).await?;
    Ok(Settled::Done)
}

/// See [`Store::halt`](crate::store::Store::halt).
pub(super) async fn halt(tx: &mut Tx<'_>, subscription: &str, epoch: Epoch, reason: &str) -> Result<Settled> {
    let row = progress::lock(tx, subscription).await?.ok_or_else(|| unknown(subscription))?;
    if row.epoch > epoch {
        return Ok(Settled::Fenced);
    }
    set_halted(tx, subscription, reason).await?;
    Ok(Settled::Done)
}

/// Halts a subscription whose row is locked, so that its epoch cannot change meanwhile.
pub(super) async fn set_halted(tx: &mut Tx<'_>, subscription: &str, reason: &str) -> Result<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions SET halted = ?, updated_at = UTC_TIMESTAMP(6) WHERE name = ?";
    require_found(subscription, tx.execute(sql, params![reason, subscription]).await? > 0)
}
