//! Leases: who works a subscription, and the load that comes with taking one.
//!
//! A transaction that locks more than one row locks the one in `subscriptions` first.

use std::time::Duration;

use super::begin::LOCK;
use super::connection::{Guard, Reached};
use super::history::{Incarnation, given_again, on_server, started, timeline};
use super::progress::SubscriptionRow;
use super::row::get;
use super::session::Tx;
use super::shape::{self, SHAPE};
use super::statement::Params;
use super::{failover, park, progress};
use crate::ledger::{KnownRows, ParkedState};
use crate::store::history::floor_offer;
use crate::store::{Acquired, AfterFailover, Epoch, LeaseRequest, Loaded, Renewed};
use crate::{Code, Error, Position, Result};

/// What a try to take a lease brought.
pub(super) struct Tried {
    pub(super) acquired: Acquired,
    /// How far the owner of the lease has come.
    pub(super) reached: Option<Reached>,
    /// With the lease, what its owner knows of the parked rows.
    pub(super) known: Option<KnownRows>,
}

/// See [`Store::acquire`](crate::store::Store::acquire).
pub(super) async fn acquire(
    tx: &Tx<'_>,
    lease: &LeaseRequest,
    server: &Incarnation,
    after_failover: AfterFailover,
    reached: Option<Reached>,
) -> Result<Tried> {
    let name = &lease.subscription;
    // Relays that stand by ask often; they must not lock the row that the owner settles on.
    if let Some(refused) = refusal(tx, lease).await? {
        return stood_by(tx, name, refused).await;
    }
    let row = progress::lock(tx, name).await?.ok_or_else(|| unknown(name))?;
    if let Some(refused) = refusal(tx, lease).await? {
        return stood_by(tx, name, refused).await;
    }
    shape::check(&tx.query(SHAPE, &[]).await?)?;
    if let Some(reason) = changed(tx, name, &row, server, after_failover, reached).await? {
        super::admin::set_halted(tx, name, &reason).await?;
        return Ok(Tried { acquired: Acquired::Halted(reason), reached: None, known: None });
    }
    let epoch = Epoch(row.epoch.0 + 1);
    take(tx, lease, epoch).await?;
    let rows = park::load(tx, name).await?;
    let (parked_count, known) = (rows.len() as u64, KnownRows::loaded(epoch, &rows));
    let (last, parked): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.state.is_final());
    let dead = last.into_iter().filter(|row| row.state == ParkedState::Dead).collect();
    let loaded = Loaded {
        epoch,
        progress: row.progress,
        parked,
        dead,
        parked_count,
        clean: row.clean,
        paused: row.paused,
        origin: Some(server.origin()),
    };
    let reached = Reached { epoch, floor: loaded.progress.done.floor() };
    Ok(Tried { acquired: Acquired::Granted(Box::new(loaded)), reached: Some(reached), known: Some(known) })
}

/// Why the subscription must halt: the database is not the one that its progress, or this process, knew.
async fn changed(
    tx: &Tx<'_>,
    name: &str,
    row: &SubscriptionRow,
    server: &Incarnation,
    after_failover: AfterFailover,
    reached: Option<Reached>,
) -> Result<Option<String>> {
    tx.execute(LOCK, &[]).await?;
    let back = match went_back(row, reached) {
        Some(reason) => Some(reason),
        None => given_again(tx, &row.progress.done, row.seen_tx.as_deref()).await?,
    };
    let moved = failover::refusal(tx, name, row, server, after_failover, back.as_deref()).await?;
    Ok(moved.or(back))
}

/// How far the owner of a subscription has come, for who stands by: should everything be put back to an older state, it is
/// noticed by a relay that knew the newer one.
async fn stood_by(tx: &Tx<'_>, name: &str, refused: Acquired) -> Result<Tried> {
    // Index: the primary key (name).
    let sql = "SELECT epoch, floor FROM {schema}.subscriptions WHERE name = $1";
    let row = match refused {
        Acquired::Held { .. } => tx.query_opt(sql, &[&name]).await?,
        Acquired::Granted(_) | Acquired::Halted(_) => None,
    };
    let reached = match row {
        Some(row) => Some(Reached { epoch: Epoch(get(&row, 0)?), floor: Position::new(get(&row, 1)?) }),
        None => None,
    };
    Ok(Tried { acquired: refused, reached, known: None })
}

/// Why the lease cannot be had now, if so: the subscription is halted, or another process has it.
pub(super) async fn refusal(tx: &Tx<'_>, lease: &LeaseRequest) -> Result<Option<Acquired>> {
    // Index: the primary key (name), of both tables.
    let sql = "SELECT s.halted, l.holder,
                      (extract(epoch FROM l.expires_at - clock_timestamp()) * 1000000)::bigint
               FROM {schema}.subscriptions AS s
               LEFT JOIN {schema}.leases AS l
                 ON l.name = s.name AND l.holder <> $2 AND l.expires_at > clock_timestamp()
               WHERE s.name = $1";
    let row = tx.query_opt(sql, &[&lease.subscription, &lease.holder]).await?;
    let row = row.ok_or_else(|| unknown(&lease.subscription))?;
    if let Some(reason) = get(&row, 0)? {
        return Ok(Some(Acquired::Halted(reason)));
    }
    let Some(holder) = get(&row, 1)? else { return Ok(None) };
    let remaining = Duration::from_micros(u64::try_from(get::<i64>(&row, 2)?).unwrap_or(0));
    Ok(Some(Acquired::Held { holder, remaining }))
}

/// How the progress went back since this process knew of it, if it did: then everything was put back to an older
/// state, and agrees with itself. Another owner only ever raises both, and an operator who sets the progress
/// back raises the epoch.
fn went_back(row: &SubscriptionRow, reached: Option<Reached>) -> Option<String> {
    let Reached { epoch, floor } = reached?;
    let found = row.progress.done.floor();
    (row.epoch < epoch || row.epoch == epoch && found < floor).then(|| {
        format!(
            "all events up to position {floor} were settled with epoch {}, but the database has {found} with \
             epoch {}: it is an older copy, and may lack events that were already published. {}",
            epoch.0,
            row.epoch.0,
            floor_offer(found)
        )
    })
}

/// Writes the lease down and raises the epoch of the progress row, which fences the owner before.
/// Until it is released in good order, the subscription counts as left in the middle of something.
pub(super) async fn take(tx: &Tx<'_>, lease: &LeaseRequest, epoch: Epoch) -> Result<()> {
    // Index: the primary key (name), of both tables.
    let raise = "UPDATE {schema}.subscriptions
                 SET epoch = $2, clean = false, updated_at = clock_timestamp()
                 WHERE name = $1";
    tx.execute(raise, &[&lease.subscription, &epoch.0]).await?;
    let take = "INSERT INTO {schema}.leases (name, holder, epoch, acquired_at, expires_at)
                VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp() + $4::bigint * interval '1 microsecond')
                ON CONFLICT (name) DO UPDATE
                SET holder = excluded.holder, epoch = excluded.epoch,
                    acquired_at = excluded.acquired_at, expires_at = excluded.expires_at";
    tx.execute(take, &[&lease.subscription, &lease.holder, &epoch.0, &micros(lease.duration)]).await?;
    Ok(())
}

/// Does nothing on another server than the lease was taken on. Index: the primary key (name), of both tables.
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
    let server = conn.incarnation()?;
    let LeaseRequest { subscription, holder, duration } = lease;
    let params: Params<'_> =
        &[subscription, holder, &epoch.0, &micros(*duration), &server.started, &server.timeline()];
    let rows = conn.query(RENEW, params).await?;
    match rows.first() {
        Some(row) if !get::<bool>(row, 0)? => Err(conn.give_up()),
        Some(row) if get(row, 1)? => {
            let paused = get(row, 2)?;
            let (is_known, rows_max) =
                (conn.known(subscription).is_of(epoch), conn.known(subscription).count() + 1);
            if !is_known {
                return Ok(Renewed::Held { paused, parked_changed: false });
            }
            let found = park::seals(conn, subscription, rows_max).await?;
            Ok(Renewed::Held { paused, parked_changed: conn.known(subscription).differ(epoch, &found) })
        }
        _ => Ok(Renewed::Lost),
    }
}

/// Does nothing on another server than the lease was taken on. Index: the primary key (name), of both tables.
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

/// See [`Store::release`](crate::store::Store::release). A lease that was not taken here is not ours to give up.
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

/// The error for a subscription that does not exist.
pub(super) fn unknown(subscription: &str) -> Error {
    Error::new(Code::SubscriptionUnknown, format!("there is no subscription {subscription:?}"))
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
