//! The operator's commands: subscribe, pause, halt, accept a new history.

use tokio_postgres::Row;

use super::connection::Guard;
use super::lease::unknown;
use super::row;
use super::session::Tx;
use super::settle::put_progress;
use crate::ledger::Progress;
use crate::store::subscription::require_found;
use crate::store::subscription_tx::SubscriptionTx;
use crate::store::{Epoch, Settled};
use crate::{Position, Result};

/// Whether the subscription exists.
pub(super) async fn is_known(conn: &mut Guard<'_>, subscription: &str) -> Result<bool> {
    // Index: the primary key (name).
    let sql = "SELECT 1 FROM {schema}.subscriptions WHERE name = $1";
    Ok(!conn.read(sql, &[&subscription]).await?.is_empty())
}

impl SubscriptionTx for Tx<'_> {
    async fn insert_subscription(&mut self, name: &str) -> Result<bool> {
        // Index: the primary key (name).
        let sql = "INSERT INTO {schema}.subscriptions (name, history)
                   VALUES ($1, $2)
                   ON CONFLICT (name) DO NOTHING";
        Ok(self.execute(sql, &[&name, &self.server().history]).await? > 0)
    }

    async fn put_progress(&mut self, name: &str, epoch: Epoch, progress: &Progress) -> Result<()> {
        put_progress(self, name, epoch, progress).await
    }

    async fn begin_epoch(&mut self, name: &str) -> Result<Option<Epoch>> {
        // Index: the primary key (name), of both tables.
        let sql = "UPDATE {schema}.subscriptions
                   SET epoch = epoch + 1, halted = NULL, history = $2
                   WHERE name = $1
                   RETURNING epoch";
        let raised = self.query_opt(sql, &[&name, &self.server().history]).await?;
        self.execute("DELETE FROM {schema}.leases WHERE name = $1", &[&name]).await?;
        raised.map(|row| row::get(&row, 0).map(Epoch)).transpose()
    }

    async fn parked_above(&mut self, name: &str, floor: Position) -> Result<Vec<Position>> {
        // Index: the primary key (subscription, position).
        let sql = "SELECT position FROM {schema}.parked WHERE subscription = $1 AND position > $2";
        let rows = self.query(sql, &[&name, &floor.get()]).await?;
        rows.iter().map(|row| row::position(row, 0)).collect()
    }

    async fn forget_replaced(&mut self, name: &str) -> Result<()> {
        // Indexes: the primary keys (subscription, position) and (position).
        let sql = "DELETE FROM {schema}.parked AS p
                   USING ONLY {schema}.events AS e
                   WHERE p.subscription = $1 AND e.position = p.position AND e.id <> p.event_id";
        self.execute(sql, &[&name]).await.map(drop)
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
