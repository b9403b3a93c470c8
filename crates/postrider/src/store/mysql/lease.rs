//! Leases: which relay owns a subscription.
//!
//! To avoid deadlocks, a transaction that locks more than one row locks the one in `subscriptions` first.

use super::connection::Guard;
use super::row::{self, get, get_opt};
use super::session::{Access, Tx, params};
use super::{park, progress};
use crate::Result;
use crate::clock::micros;
use crate::store::lease_tx::LeaseTx;
use crate::store::subscription::SubscriptionRow;
pub(super) use crate::store::subscription::unknown;
use crate::store::{Acquired, Epoch, LeaseOverview, LeaseRequest, Renewed};

impl LeaseTx for Tx<'_> {
    type Row = SubscriptionRow;

    async fn refusal(&mut self, lease: &LeaseRequest) -> Result<Option<Acquired>> {
        // Index: the primary key (name), of both tables.
        let sql = "SELECT s.halted, l.holder, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), l.expires_at)
                   FROM {schema}.subscriptions AS s
                   LEFT JOIN {schema}.leases AS l
                     ON l.name = s.name AND l.holder <> ? AND l.expires_at > UTC_TIMESTAMP(6)
                    AND (l.session_lock IS NULL OR IS_USED_LOCK(l.session_lock) IS NOT NULL)
                   WHERE s.name = ?";
        let row = self.query_opt(sql, params![lease.holder.as_str(), lease.subscription.as_str()]).await?;
        let row = row.ok_or_else(|| unknown(&lease.subscription))?;
        Acquired::refusal(&row)
    }

    async fn lock(&mut self, name: &str) -> Result<Option<SubscriptionRow>> {
        progress::lock(self, name).await
    }

    /// Records the lease and raises the epoch of the progress row, which fences the previous owner. Until it is released
    /// cleanly, the subscription counts as one whose owner died: the next owner starts carefully. The session takes its
    /// named lock, and keeps it until it ends.
    async fn take(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        // Index: the primary key (name), of both tables.
        let raise = "UPDATE {schema}.subscriptions
                     SET epoch = ?, clean = FALSE, updated_at = UTC_TIMESTAMP(6)
                     WHERE name = ?";
        self.execute(raise, params![epoch.0, lease.subscription.as_str()]).await?;
        // Not in the INSERT: a server with a binary log of statements warns about such functions.
        let name = self.session_lock().to_owned();
        let locked = self.query_opt("SELECT GET_LOCK(?, 0)", params![name.as_str()]).await?;
        let is_locked = locked.map(|row| get_opt::<i64>(&row, 0)).transpose()?.flatten() == Some(1);
        let take = "INSERT INTO {schema}.leases (name, holder, epoch, acquired_at, expires_at, session_lock)
                    VALUES (?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, ?)
                    ON DUPLICATE KEY UPDATE
                        holder = VALUES(holder), epoch = VALUES(epoch), session_lock = VALUES(session_lock),
                        acquired_at = VALUES(acquired_at), expires_at = VALUES(expires_at)";
        let LeaseRequest { subscription, holder, duration } = lease;
        let session_lock = is_locked.then_some(name);
        let values =
            params![subscription.as_str(), holder.as_str(), epoch.0, micros(*duration), session_lock];
        self.execute(take, values).await?;
        Ok(())
    }
}

/// The lease of a subscription, expired or not.
pub(super) async fn load(snapshot: &mut Tx<'_>, name: &str) -> Result<Option<LeaseOverview>> {
    // Index: the primary key (name).
    let sql = concat!("SELECT holder, ", row::micros!("expires_at"), " FROM {schema}.leases WHERE name = ?");
    let row = snapshot.query_opt(sql, params![name]).await?;
    row.as_ref().map(LeaseOverview::read).transpose()
}

/// See [`Store::renew`](crate::store::Store::renew).
pub(super) async fn renew(conn: &mut Guard<'_>, lease: &LeaseRequest, epoch: Epoch) -> Result<Renewed> {
    // Index: the primary key (name).
    let renew = "UPDATE {schema}.leases
                 SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
                 WHERE name = ? AND holder = ? AND epoch = ?";
    let LeaseRequest { subscription, holder, duration } = lease;
    let values = params![micros(*duration), subscription.as_str(), holder.as_str(), epoch.0];
    if conn.session()?.autocommit_changes(renew, values).await? == 0 {
        return Ok(Renewed::Lost);
    }
    // Index: the primary key (name).
    let paused = "SELECT paused FROM {schema}.subscriptions WHERE name = ?";
    let rows = conn.session()?.autocommit(Access::Reads, paused, params![subscription.as_str()]).await?;
    let paused = rows.first().map_or(Ok(None), |row| get(row, 0))?;
    let parked_changed = match conn.known(subscription).rows_to_compare(epoch) {
        Some(rows_max) => {
            let found = park::seals(conn.session()?, subscription, rows_max).await?;
            conn.known(subscription).differ(epoch, &found)
        }
        None => false,
    };
    Ok(Renewed::Held { paused, parked_changed })
}

/// See [`Store::release`](crate::store::Store::release). The caller has checked that the lease was taken on this
/// server.
pub(super) async fn release(tx: &mut Tx<'_>, subscription: &str, epoch: Epoch, clean: bool) -> Result<()> {
    // Index: the primary key (name), of both tables.
    let owned = "UPDATE {schema}.subscriptions AS s
                 JOIN {schema}.leases AS l ON l.name = s.name AND l.epoch = s.epoch
                 SET s.clean = ?
                 WHERE s.name = ? AND s.epoch = ?";
    if tx.execute(owned, params![clean, subscription, epoch.0]).await? > 0 {
        let free = "DELETE FROM {schema}.leases WHERE name = ? AND epoch = ?";
        tx.execute(free, params![subscription, epoch.0]).await?;
    }
    Ok(())
}
