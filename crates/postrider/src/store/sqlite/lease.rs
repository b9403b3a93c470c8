//! Leases: which relay owns a subscription.
//!
//! Taking one follows the [protocol](crate::store::lease_tx) of all stores. The checks of a server's
//! [takeover](crate::store::takeover) do not apply: progress and events are in one file, so that they can only be
//! replaced together, and each claim compares the history of the file with what it has seen.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Attempt;
use super::ledger::Ledger;
use super::log_tx::SqliteTx;
use super::worker::poll_once;
use super::{park, progress, session_lock};
use crate::ledger::KnownRows;
use crate::store::lease_tx::{LeaseTx, Locked, lock_if_free};
use crate::store::subscription::SubscriptionRow;
pub(super) use crate::store::subscription::unknown;
use crate::store::{Acquired, Epoch, LeaseOverview, LeaseRequest, Renewed};
use crate::{Result, Timestamp};

/// The database's clock, in microseconds. SQLite's clock has a resolution of milliseconds.
pub(super) fn now(connection: &Connection) -> Attempt<i64> {
    let sql = "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// See [`Store::acquire`](crate::store::Store::acquire). Also returns the parked rows, as the new owner knows them.
pub(super) fn acquire(tx: &mut Connection, lease: &LeaseRequest) -> Attempt<(Acquired, Option<KnownRows>)> {
    let row = match poll_once(lock_if_free(&mut SqliteTx(tx), lease))? {
        Locked::Free(row) => row,
        Locked::Refused(refused) => return Ok((refused, None)),
    };
    let epoch = Epoch(row.epoch.0 + 1);
    let previous = load(tx, Ledger::Log, &lease.subscription)?;
    poll_once(SqliteTx(tx).take(lease, epoch))?;
    let (mut loaded, known) = row.into_loaded(epoch, park::load(tx, &lease.subscription)?, None);
    loaded.previous = previous;
    Ok((Acquired::Granted(Box::new(loaded)), Some(known)))
}

impl LeaseTx for SqliteTx<'_> {
    type Row = SubscriptionRow;

    async fn refusal(&mut self, lease: &LeaseRequest) -> Result<Option<Acquired>> {
        let row = progress::load(self.0, Ledger::Log, &lease.subscription)?;
        if let Some(reason) = row.and_then(|row| row.halted) {
            return Ok(Some(Acquired::Halted(reason)));
        }
        let now = now(self.0)?;
        let held = other_holder(self.0, Ledger::Log, lease, now)?.map(|(holder, expires_at)| {
            let remaining = Timestamp::from_micros(now).until(Timestamp::from_micros(expires_at));
            Acquired::Held { holder, remaining }
        });
        Ok(held)
    }

    /// The transaction is the file's only writer from its beginning, which is a lock on every row.
    async fn lock(&mut self, name: &str) -> Result<Option<SubscriptionRow>> {
        Ok(progress::load(self.0, Ledger::Log, name)?)
    }

    async fn take(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        Ok(take(self.0, Ledger::Log, lease, epoch, now(self.0)?)?)
    }
}

/// The lease of a subscription, expired or not.
pub(super) fn load(snapshot: &Connection, ledger: Ledger, name: &str) -> Attempt<Option<LeaseOverview>> {
    // Index: the primary key (name).
    let sql = "SELECT holder, expires_at FROM {leases} WHERE name = ?1";
    let mut statement = snapshot.prepare_cached(&ledger.put_into(sql))?;
    let lease = statement.query_row([name], |row| {
        Ok(LeaseOverview { holder: row.get(0)?, expires_at: Timestamp::from_micros(row.get(1)?) })
    });
    Ok(lease.optional()?)
}

/// Another relay that holds the lease now, and until when. A relay that is gone holds nothing.
pub(super) fn other_holder(
    tx: &Connection,
    ledger: Ledger,
    lease: &LeaseRequest,
    now: i64,
) -> Attempt<Option<(String, i64)>> {
    // Index: the primary key (name).
    let mut statement = tx.prepare_cached(&ledger.put_into(
        "SELECT holder, expires_at, session_lock
         FROM {leases}
         WHERE name = ?1 AND holder <> ?2 AND expires_at > ?3",
    ))?;
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let other: Option<(String, i64, Option<String>)> =
        statement.query_row(params![lease.subscription, lease.holder, now], row).optional()?;
    let other =
        other.filter(|(_, _, lock)| !lock.as_ref().is_some_and(|lock| session_lock::is_gone(tx, lock)));
    Ok(other.map(|(holder, expires_at, _)| (holder, expires_at)))
}

/// Records the lease and raises the epoch of the progress row, which fences the previous owner. Until it is released
/// cleanly, the subscription counts as one whose owner died: the next owner starts carefully.
pub(super) fn take(
    tx: &Connection,
    ledger: Ledger,
    lease: &LeaseRequest,
    epoch: Epoch,
    now: i64,
) -> Attempt<()> {
    let previous = tx
        .prepare_cached(&ledger.put_into("SELECT session_lock FROM {leases} WHERE name = ?1"))?
        .query_row([&lease.subscription], |row| row.get::<_, Option<String>>(0))
        .optional()?;
    let LeaseRequest { subscription, holder, duration } = lease;
    // Index: the primary key (name), of both tables.
    tx.prepare_cached(&ledger.put_into(
        "INSERT INTO {leases} (name, holder, epoch, acquired_at, expires_at, session_lock)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (name) DO UPDATE
         SET holder = excluded.holder, epoch = excluded.epoch, session_lock = excluded.session_lock,
             acquired_at = excluded.acquired_at, expires_at = excluded.expires_at",
    ))?
    .execute(params![
        subscription,
        holder,
        epoch.0,
        now,
        end(*duration, now),
        session_lock::token(tx)
    ])?;
    remove_unused_lock(tx, ledger, previous.flatten())?;
    tx.prepare_cached(&ledger.put_into(
        "UPDATE {subscriptions}
         SET epoch = ?2, clean = 0, updated_at = ?3
         WHERE name = ?1",
    ))?
    .execute(params![lease.subscription, epoch.0, now])?;
    Ok(())
}

/// Removes the lock of an owner that is gone, after the last of its leases was taken over.
fn remove_unused_lock(tx: &Connection, ledger: Ledger, lock: Option<String>) -> Attempt<()> {
    let Some(lock) = lock else { return Ok(()) };
    // A table of a few rows.
    let sql = ledger.put_into("SELECT count(*) FROM {leases} WHERE session_lock = ?1");
    let leases: i64 = tx.prepare_cached(&sql)?.query_row([&lock], |row| row.get(0))?;
    if leases == 0 {
        session_lock::remove(tx, &lock);
    }
    Ok(())
}

/// See [`Store::renew`](crate::store::Store::renew).
pub(super) fn renew(tx: &Connection, ledger: Ledger, lease: &LeaseRequest, epoch: Epoch) -> Attempt<Renewed> {
    // Index: the primary key (name), of both tables.
    let renewed = tx
        .prepare_cached(&ledger.put_into(
            "UPDATE {leases}
             SET expires_at = ?4
             WHERE name = ?1 AND holder = ?2 AND epoch = ?3",
        ))?
        .execute(params![lease.subscription, lease.holder, epoch.0, end(lease.duration, now(tx)?)])?;
    if renewed == 0 {
        return Ok(Renewed::Lost);
    }
    let paused = tx
        .prepare_cached(&ledger.put_into("SELECT paused FROM {subscriptions} WHERE name = ?1"))?
        .query_row([&lease.subscription], |row| row.get(0))?;
    Ok(Renewed::Held { paused, parked_changed: false })
}

/// See [`Store::release`](crate::store::Store::release).
pub(super) fn release(
    tx: &Connection,
    ledger: Ledger,
    subscription: &str,
    epoch: Epoch,
    clean: bool,
) -> Attempt<()> {
    // Index: the primary key (name), of both tables.
    let freed = tx
        .prepare_cached(&ledger.put_into("DELETE FROM {leases} WHERE name = ?1 AND epoch = ?2"))?
        .execute(params![subscription, epoch.0])?;
    if freed > 0 {
        let set_clean = "UPDATE {subscriptions} SET clean = ?3 WHERE name = ?1 AND epoch = ?2";
        tx.prepare_cached(&ledger.put_into(set_clean))?.execute(params![subscription, epoch.0, clean])?;
    }
    Ok(())
}

fn end(duration: Duration, now: i64) -> i64 {
    Timestamp::from_micros(now).after(duration).as_micros()
}
