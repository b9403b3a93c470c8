//! The operator's commands: subscribe, pause, halt, accept a new history.

use super::lease::unknown;
use super::ranges::listed;
use super::row;
use super::session::{Access, Session, Tx, params};
use super::settle::put_progress;
use super::{log_tx, operate, progress};
use crate::Result;
use crate::ledger::Intervals;
use crate::store::log_tx::{start_audit, start_progress};
use crate::store::subscription::require_found;
use crate::store::subscription_tx::SubscriptionTx;
use crate::store::{Epoch, Settled, Start};

/// Whether the subscription exists.
pub(super) async fn is_known(session: &mut Session, subscription: &str) -> Result<bool> {
    // Index: the primary key (name).
    let sql = "SELECT 1 FROM {schema}.subscriptions WHERE name = ?";
    Ok(!session.autocommit(Access::Reads, sql, params![subscription]).await?.is_empty())
}

/// See [`Store::subscribe`](crate::store::Store::subscribe).
pub(super) async fn subscribe(tx: &mut Tx<'_>, subscription: &str, start: Start) -> Result<bool> {
    let Some(done) = create(tx, subscription, start).await? else { return Ok(false) };
    if let Some((record, targets)) = start_audit(start, &done) {
        operate::insert_audit(tx, Some(subscription), &record, 0, &targets).await?;
    }
    Ok(true)
}

/// Creates a subscription without an audit row. Returns the positions that it skips; `None` if it exists.
async fn create(tx: &mut Tx<'_>, subscription: &str, start: Start) -> Result<Option<Intervals>> {
    log_tx::keep_events(tx).await?;
    if progress::load(tx, subscription).await?.is_some() {
        return Ok(None);
    }
    let history = tx.server().history.clone();
    // Index: the primary key (name).
    let sql = "INSERT INTO {schema}.subscriptions (name, history, done) VALUES (?, ?, '0')";
    tx.execute(sql, params![subscription, history]).await?;
    let progress = start_progress(tx, start).await?;
    put_progress(tx, subscription, Epoch::default(), &progress).await?;
    Ok(Some(progress.done))
}

impl SubscriptionTx for Tx<'_> {
    async fn create(&mut self, name: &str, start: Start) -> Result<bool> {
        Ok(create(self, name, start).await?.is_some())
    }

    async fn restart(&mut self, name: &str, start: Start) -> Result<()> {
        accept_history(self, name, start).await
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

/// See [`Store::accept_history`](crate::store::Store::accept_history). Raises the epoch and removes the lease, so that
/// an owner that still uses the old history cannot overwrite the new progress.
pub(super) async fn accept_history(tx: &mut Tx<'_>, subscription: &str, start: Start) -> Result<()> {
    log_tx::keep_events(tx).await?;
    let history = tx.server().history.clone();
    // Index: the primary key (name), of both tables.
    let row = progress::lock(tx, subscription).await?.ok_or_else(|| unknown(subscription))?;
    let epoch = Epoch(row.epoch.0 + 1);
    let sql = "UPDATE {schema}.subscriptions SET epoch = ?, halted = NULL, history = ? WHERE name = ?";
    tx.execute(sql, params![epoch.0, history, subscription]).await?;
    tx.execute("DELETE FROM {schema}.leases WHERE name = ?", params![subscription]).await?;
    // In another history these positions may hold other events.
    tx.execute("DELETE FROM {schema}.empty_positions WHERE subscription = ?", params![subscription]).await?;
    let progress = start_progress(tx, start).await?;
    forget_parked(tx, subscription, &progress.done).await?;
    put_progress(tx, subscription, epoch, &progress).await
}

/// Removes the parked rows whose events are read again, and those whose position now holds another event. Rows of
/// positions that are done above the floor stay: their events are not read again.
async fn forget_parked(tx: &mut Tx<'_>, subscription: &str, done: &Intervals) -> Result<()> {
    // Indexes: the primary keys (subscription, position) and (position).
    let others = "DELETE FROM {schema}.parked
                  WHERE subscription = ?
                    AND EXISTS (SELECT 1 FROM {schema}.events AS e
                                WHERE e.position = parked.position AND e.id <> parked.event_id)";
    tx.execute(others, params![subscription]).await?;
    // Index: the primary key (subscription, position).
    let above = "SELECT position FROM {schema}.parked WHERE subscription = ? AND position > ?";
    let rows = tx.query(above, params![subscription, done.floor().get()]).await?;
    let parked = rows.iter().map(|row| row::position(row, 0)).collect::<Result<Vec<_>>>()?;
    let again = listed(parked.into_iter().filter(|position| !done.contains(*position)));
    let forget = format!("DELETE FROM {{schema}}.parked WHERE subscription = ? AND position IN ({again})");
    tx.execute(&forget, params![subscription]).await?;
    Ok(())
}
