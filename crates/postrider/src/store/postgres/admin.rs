//! The operator's commands: subscribe, pause, halt, accept a new history.

use tokio_postgres::Row;

use super::connection::Guard;
use super::lease::unknown;
use super::session::Tx;
use super::settle::put_progress;
use super::{log_tx, operate, row};
use crate::ledger::Intervals;
use crate::store::log_tx::{start_audit, start_progress};
use crate::store::subscription::require_found;
use crate::store::subscription_tx::SubscriptionTx;
use crate::store::{Epoch, Settled, Start};
use crate::{Position, Result};

/// Whether the subscription exists.
pub(super) async fn is_known(conn: &mut Guard<'_>, subscription: &str) -> Result<bool> {
    // Index: the primary key (name).
    let sql = "SELECT 1 FROM {schema}.subscriptions WHERE name = $1";
    Ok(!conn.read(sql, &[&subscription]).await?.is_empty())
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
    // Index: the primary key (name).
    let sql = "INSERT INTO {schema}.subscriptions (name, history)
               VALUES ($1, $2)
               ON CONFLICT (name) DO NOTHING";
    let created = tx.execute(sql, &[&subscription, &tx.server().history]).await?;
    if created == 0 {
        return Ok(None);
    }
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
            "DELETE FROM {schema}.parked WHERE subscription = $1",
            "DELETE FROM {schema}.relays WHERE subscription = $1",
            "DELETE FROM {schema}.leases WHERE name = $1",
            "DELETE FROM {schema}.subscriptions WHERE name = $1",
        ] {
            self.execute(sql, &[&name]).await?;
        }
        Ok(())
    }
}

/// See [`Store::pause`](crate::store::Store::pause).
pub(super) async fn pause(conn: &mut Guard<'_>, subscription: &str, reason: Option<&str>) -> Result<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions
               SET paused = $2, updated_at = clock_timestamp()
               WHERE name = $1
               RETURNING 1";
    require_found(subscription, !conn.query(sql, &[&subscription, &reason]).await?.is_empty())
}

/// The same as a step of a transaction.
pub(super) async fn pause_in(tx: &Tx<'_>, subscription: &str, reason: Option<&str>) -> Result<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions
               SET paused = $2, updated_at = clock_timestamp()
               WHERE name = $1";
    require_found(subscription, tx.execute(sql, &[&subscription, &reason]).await? > 0)
}

/// An UPDATE of the subscription `$1` by an owner with epoch `$2`. Returns a row if the subscription exists, with
/// whether it was updated. Index: the primary key (name).
macro_rules! update_as_owner {
    ($set:literal, $fence:literal) => {
        concat!(
            "WITH updated AS (
                 UPDATE {schema}.subscriptions
                 SET ",
            $set,
            ", updated_at = clock_timestamp()
                 WHERE name = $1 AND ",
            $fence,
            "    RETURNING name
             )
             SELECT updated.name IS NOT NULL
             FROM {schema}.subscriptions AS s LEFT JOIN updated ON true
             WHERE s.name = $1"
        )
    };
}

/// See [`Store::pause_as_owner`](crate::store::Store::pause_as_owner).
pub(super) async fn pause_as_owner(
    conn: &mut Guard<'_>,
    subscription: &str,
    epoch: Epoch,
    reason: &str,
) -> Result<Settled> {
    let sql = update_as_owner!("paused = $3", "epoch = $2");
    settled(subscription, &conn.query(sql, &[&subscription, &epoch.0, &reason]).await?)
}

/// See [`Store::halt`](crate::store::Store::halt).
pub(super) async fn halt(
    conn: &mut Guard<'_>,
    subscription: &str,
    epoch: Epoch,
    reason: &str,
) -> Result<Settled> {
    let sql = update_as_owner!("halted = $3", "epoch <= $2");
    settled(subscription, &conn.query(sql, &[&subscription, &epoch.0, &reason]).await?)
}

/// Halts a subscription whose row is locked, so that its epoch cannot change meanwhile.
pub(super) async fn set_halted(tx: &Tx<'_>, subscription: &str, reason: &str) -> Result<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions
               SET halted = $2, updated_at = clock_timestamp()
               WHERE name = $1
               RETURNING 1";
    require_found(subscription, !tx.query(sql, &[&subscription, &reason]).await?.is_empty())
}

/// The result of [`update_as_owner!`].
fn settled(subscription: &str, rows: &[Row]) -> Result<Settled> {
    let row = rows.first().ok_or_else(|| unknown(subscription))?;
    Ok(if row::get(row, 0)? { Settled::Done } else { Settled::Fenced })
}

/// See [`Store::accept_history`](crate::store::Store::accept_history). Raises the epoch and removes the lease, so that
/// an owner that still uses the old history cannot overwrite the new progress.
pub(super) async fn accept_history(tx: &mut Tx<'_>, subscription: &str, start: Start) -> Result<()> {
    log_tx::keep_events(tx).await?;
    // Index: the primary key (name), of both tables.
    let sql = "UPDATE {schema}.subscriptions
               SET epoch = epoch + 1, halted = NULL, history = $2
               WHERE name = $1
               RETURNING epoch";
    let raised = tx.query_opt(sql, &[&subscription, &tx.server().history]).await?;
    let epoch = Epoch(row::get(&raised.ok_or_else(|| unknown(subscription))?, 0)?);
    tx.execute("DELETE FROM {schema}.leases WHERE name = $1", &[&subscription]).await?;
    let progress = start_progress(tx, start).await?;
    forget_parked(tx, subscription, &progress.done).await?;
    put_progress(tx, subscription, epoch, &progress).await
}

/// Removes the parked rows whose events are read again, and those whose position now holds another event. Rows of
/// positions that are done above the floor stay: their events are not read again.
async fn forget_parked(tx: &Tx<'_>, subscription: &str, done: &Intervals) -> Result<()> {
    // Index: the primary key (subscription, position).
    let above = "SELECT position FROM {schema}.parked WHERE subscription = $1 AND position > $2";
    let rows = tx.query(above, &[&subscription, &done.floor().get()]).await?;
    let parked = rows.iter().map(|row| row::position(row, 0)).collect::<Result<Vec<_>>>()?;
    let again: Vec<i64> =
        parked.into_iter().filter(|position| !done.contains(*position)).map(Position::get).collect();
    let forget = "DELETE FROM {schema}.parked WHERE subscription = $1 AND position = ANY ($2::bigint[])";
    tx.execute(forget, &[&subscription, &again]).await?;
    // Indexes: the primary keys (subscription, position) and (position).
    let others = "DELETE FROM {schema}.parked AS p
                  USING ONLY {schema}.events AS e
                  WHERE p.subscription = $1 AND e.position = p.position AND e.id <> p.event_id";
    tx.execute(others, &[&subscription]).await?;
    Ok(())
}
