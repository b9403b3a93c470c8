//! Leases: which relay owns a subscription.
//!
//! To avoid deadlocks, a transaction that locks more than one row locks the one in `subscriptions` first.

use super::connection::Guard;
use super::history::{on_server, started, timeline};
use super::row::get;
use super::session::Tx;
use super::statement::Params;
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
        // Every role sees every lock in `pg_locks`, which shows a key of 64 bits as two halves.
        let sql = "SELECT s.halted, l.holder,
                          (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint
                   FROM {schema}.subscriptions AS s
                   LEFT JOIN {schema}.leases AS l
                     ON l.name = s.name AND l.holder <> $2 AND l.expires_at > clock_timestamp()
                    AND (l.session_lock IS NULL OR EXISTS (
                            SELECT FROM pg_locks AS k
                            WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1
                              AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                              AND k.classid::bigint = (l.session_lock >> 32) & 4294967295
                              AND k.objid::bigint = l.session_lock & 4294967295))
                   WHERE s.name = $1";
        let row = self.query_opt(sql, &[&lease.subscription, &lease.holder]).await?;
        let row = row.ok_or_else(|| unknown(&lease.subscription))?;
        Acquired::refusal(&row)
    }

    async fn lock(&mut self, name: &str) -> Result<Option<SubscriptionRow>> {
        progress::lock(self, name).await
    }

    /// Records the lease and raises the epoch of the progress row, which fences the previous owner. Until it is released
    /// cleanly, the subscription counts as one whose owner died: the next owner starts carefully. The session locks its
    /// key, and keeps it locked until it ends.
    async fn take(&mut self, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
        // Index: the primary key (name), of both tables.
        let raise = "UPDATE {schema}.subscriptions
                     SET epoch = $2, clean = false, updated_at = clock_timestamp()
                     WHERE name = $1";
        self.execute(raise, &[&lease.subscription, &epoch.0]).await?;
        let take = "INSERT INTO {schema}.leases (name, holder, epoch, acquired_at, expires_at, session_lock)
                    VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp() + $4::bigint * interval '1 microsecond',
                            CASE WHEN pg_try_advisory_lock($5::bigint) THEN $5::bigint END)
                    ON CONFLICT (name) DO UPDATE
                    SET holder = excluded.holder, epoch = excluded.epoch, session_lock = excluded.session_lock,
                        acquired_at = excluded.acquired_at, expires_at = excluded.expires_at";
        let LeaseRequest { subscription, holder, duration } = lease;
        let session_lock = self.session_lock();
        self.execute(take, &[subscription, holder, &epoch.0, &micros(*duration), &session_lock]).await?;
        Ok(())
    }
}

/// The lease of a subscription, expired or not.
pub(super) async fn load(snapshot: &Tx<'_>, name: &str) -> Result<Option<LeaseOverview>> {
    // Index: the primary key (name).
    let sql = "SELECT holder, expires_at FROM {schema}.leases WHERE name = $1";
    let row = snapshot.query_opt(sql, &[&name]).await?;
    row.as_ref().map(LeaseOverview::read).transpose()
}

/// Changes nothing on another server than the one on which the lease was taken. Index: the primary key (name), of both
/// tables.
const RENEW: &str = concat!(
    "WITH renewed AS (
         UPDATE {schema}.leases
         SET expires_at = clock_timestamp() + $4::bigint * interval '1 microsecond'
         WHERE name = $1 AND holder = $2 AND epoch = $3 AND ",
    on_server!("$5", "$6"),
    "    RETURNING name
     )
     SELECT ",
    on_server!("$5", "$6"),
    "      , renewed.name IS NOT NULL, s.paused
     FROM (SELECT) AS one
     LEFT JOIN renewed ON true
     LEFT JOIN {schema}.subscriptions AS s ON s.name = renewed.name"
);

/// See [`Store::renew`](crate::store::Store::renew).
pub(super) async fn renew(conn: &mut Guard<'_>, lease: &LeaseRequest, epoch: Epoch) -> Result<Renewed> {
    let server = conn.server()?;
    let LeaseRequest { subscription, holder, duration } = lease;
    let params: Params<'_> =
        &[subscription, holder, &epoch.0, &micros(*duration), &server.started, &server.timeline()];
    let rows = conn.query(RENEW, params).await?;
    match rows.first() {
        Some(row) if !get::<bool>(row, 0)? => Err(conn.give_up()),
        Some(row) if get(row, 1)? => {
            let paused = get(row, 2)?;
            let parked_changed = match conn.known(subscription).rows_to_compare(epoch) {
                Some(rows_max) => {
                    let found = park::seals(conn, subscription, rows_max).await?;
                    conn.known(subscription).differ(epoch, &found)
                }
                None => false,
            };
            Ok(Renewed::Held { paused, parked_changed })
        }
        _ => Ok(Renewed::Lost),
    }
}

/// Changes nothing on another server than the one on which the lease was taken. Index: the primary key (name), of both
/// tables.
const RELEASE: &str = concat!(
    "WITH owned AS (
         UPDATE {schema}.subscriptions AS s
         SET clean = $3
         FROM {schema}.leases AS l
         WHERE s.name = $1 AND s.epoch = $2 AND l.name = s.name AND l.epoch = s.epoch AND ",
    on_server!("$4", "$5"),
    "    RETURNING s.name
     )
     DELETE FROM {schema}.leases AS l USING owned WHERE l.name = owned.name"
);

/// See [`Store::release`](crate::store::Store::release). Does nothing if this process took no lease.
pub(super) async fn release(
    conn: &mut Guard<'_>,
    subscription: &str,
    epoch: Epoch,
    clean: bool,
) -> Result<()> {
    let Some(server) = conn.lease_taken_on(subscription) else { return Ok(()) };
    let params: Params<'_> = &[&subscription, &epoch.0, &clean, &server.started, &server.timeline()];
    conn.query(RELEASE, params).await?;
    Ok(())
}
