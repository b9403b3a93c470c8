//! Verbs of the operator: subscribe, pause, halt, accept a new history.

use tokio_postgres::Row;

use super::connection::Guard;
use super::history::{Incarnation, last_position, mark_at_or_below};
use super::lease::unknown;
use super::session::Tx;
use super::time::Time;
use super::writers::decided_up_to;
use super::{maintain, progress, row};
use crate::ledger::{Intervals, Progress};
use crate::store::{Epoch, Settled, Start};
use crate::{Error, Position, Result, Timestamp};

/// Whether the subscription exists.
pub(super) async fn is_known(conn: &mut Guard<'_>, subscription: &str) -> Result<bool> {
    // Index: the primary key (name).
    let sql = "SELECT 1 FROM {schema}.subscriptions WHERE name = $1";
    Ok(!conn.read(sql, &[&subscription]).await?.is_empty())
}

/// See [`Store::subscribe`](crate::store::Store::subscribe).
pub(super) async fn subscribe(
    tx: &Tx<'_>,
    subscription: &str,
    start: Start,
    server: &Incarnation,
) -> Result<bool> {
    maintain::keep_events(tx).await?;
    // Index: the primary key (name).
    let sql = "INSERT INTO {schema}.subscriptions (name, history)
               VALUES ($1, $2)
               ON CONFLICT (name) DO NOTHING";
    let created = tx.execute(sql, &[&subscription, &server.history]).await?;
    if created > 0 {
        progress::put(tx, subscription, Epoch::default(), &begin(tx, start).await?).await?;
    }
    Ok(created > 0)
}

/// The progress of a subscription that begins at `start`. A position the outbox has not reached yet
/// counts as its end: beyond it there is no history to compare with.
async fn begin(tx: &Tx<'_>, start: Start) -> Result<Progress> {
    let done = match start {
        Start::Now => visible(tx, None).await?,
        Start::Beginning => Intervals::default(),
        Start::Position(position) => {
            let end = last_position(tx).await?;
            Intervals::up_to(position.max(Position::new(1)).previous().min(end))
        }
        Start::Time(time) => visible(tx, Some(time)).await?,
    };
    let highest = mark_at_or_below(tx, done.highest()).await?;
    Ok(Progress { done, highest, trial: None })
}

/// What one snapshot shows, all of it or up to the first event that happened at or after `until`; and what is
/// gone for good. Any other position that is absent is not in the set: its transaction may still commit, and then
/// its event is later than the snapshot.
async fn visible(tx: &Tx<'_>, until: Option<Timestamp>) -> Result<Intervals> {
    // Before the snapshot, or its proof is none.
    let decided = decided_up_to(tx).await?;
    // Index: the primary key (position), all of it, once per subscription. One row per gap: what stands
    // before it and where it ends; and where the last event stands, with the end of what is decided.
    let sql = "WITH first AS MATERIALIZED (
                   SELECT position FROM ONLY {schema}.events
                   WHERE $1::timestamptz IS NOT NULL AND time >= $1
                   ORDER BY position
                   LIMIT 1
               ), seen AS NOT MATERIALIZED (
                   SELECT position FROM ONLY {schema}.events
                   WHERE position < coalesce((SELECT position FROM first), 9223372036854775807)
               )
               SELECT before, position, NULL::bigint
               FROM (SELECT lag(position, 1, 0::bigint) OVER (ORDER BY position) AS before, position FROM seen)
                    AS steps
               WHERE position <> before + 1
               UNION ALL
               SELECT max(position), NULL, least($2::bigint, (SELECT position - 1 FROM first)) FROM seen
               ORDER BY 1";
    let mut done = Intervals::default();
    let mut first = Position::new(1);
    for step in tx.query(sql, &[&until.map(Time), &decided.get()]).await? {
        let (last, next): (Option<i64>, Option<i64>) = (row::get(&step, 0)?, row::get(&step, 1)?);
        if let Some(decided) = row::get::<Option<i64>>(&step, 2)? {
            done.insert_range(Position::new(1), Position::new(decided));
        }
        done.insert_range(first, last.map_or(Position::ZERO, Position::new));
        first = next.map_or(first, Position::new);
    }
    Ok(done)
}

/// See [`Store::pause`](crate::store::Store::pause).
pub(super) async fn pause(conn: &mut Guard<'_>, subscription: &str, reason: Option<&str>) -> Result<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions
               SET paused = $2, updated_at = clock_timestamp()
               WHERE name = $1
               RETURNING 1";
    known(subscription, conn.query(sql, &[&subscription, &reason]).await?.len())
}

/// See [`Store::pause_as_owner`](crate::store::Store::pause_as_owner).
pub(super) async fn pause_as_owner(
    conn: &mut Guard<'_>,
    subscription: &str,
    epoch: Epoch,
    reason: &str,
) -> Result<Settled> {
    // Index: the primary key (name).
    let sql = "WITH paused AS (
                   UPDATE {schema}.subscriptions
                   SET paused = $3, updated_at = clock_timestamp()
                   WHERE name = $1 AND epoch = $2
                   RETURNING name
               )
               SELECT paused.name IS NOT NULL
               FROM {schema}.subscriptions AS s LEFT JOIN paused ON true
               WHERE s.name = $1";
    fenced(subscription, &conn.query(sql, &[&subscription, &epoch.0, &reason]).await?)
}

/// See [`Store::halt`](crate::store::Store::halt).
pub(super) async fn halt(
    conn: &mut Guard<'_>,
    subscription: &str,
    epoch: Epoch,
    reason: &str,
) -> Result<Settled> {
    // Index: the primary key (name).
    let sql = "WITH halted AS (
                   UPDATE {schema}.subscriptions
                   SET halted = $3, updated_at = clock_timestamp()
                   WHERE name = $1 AND epoch <= $2
                   RETURNING name
               )
               SELECT halted.name IS NOT NULL
               FROM {schema}.subscriptions AS s LEFT JOIN halted ON true
               WHERE s.name = $1";
    fenced(subscription, &conn.query(sql, &[&subscription, &epoch.0, &reason]).await?)
}

/// Halts a subscription whose row is locked: no relay can be given an epoch meanwhile.
pub(super) async fn set_halted(tx: &Tx<'_>, subscription: &str, reason: &str) -> Result<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions
               SET halted = $2, updated_at = clock_timestamp()
               WHERE name = $1
               RETURNING 1";
    known(subscription, tx.query(sql, &[&subscription, &reason]).await?.len())
}

/// Whether the owner's word was taken. Without a row there is no such subscription.
fn fenced(subscription: &str, rows: &[Row]) -> Result<Settled> {
    let row = rows.first().ok_or_else(|| unknown(subscription))?;
    Ok(if row::get(row, 0)? { Settled::Done } else { Settled::Fenced })
}

/// See [`Store::accept_history`](crate::store::Store::accept_history). Raises the epoch and frees the
/// lease: an owner that still believes in the old history can no longer settle over the new progress.
pub(super) async fn accept_history(
    tx: &Tx<'_>,
    subscription: &str,
    start: Start,
    server: &Incarnation,
) -> Result<()> {
    maintain::keep_events(tx).await?;
    // Index: the primary key (name), of both tables.
    let sql = "UPDATE {schema}.subscriptions
               SET epoch = epoch + 1, halted = NULL, history = $2
               WHERE name = $1
               RETURNING epoch";
    let raised = tx.query_opt(sql, &[&subscription, &server.history]).await?;
    let epoch = Epoch(row::get(&raised.ok_or_else(|| unknown(subscription))?, 0)?);
    tx.execute("DELETE FROM {schema}.leases WHERE name = $1", &[&subscription]).await?;
    let progress = begin(tx, start).await?;
    forget_parked(tx, subscription, &progress.done).await?;
    progress::put(tx, subscription, epoch, &progress).await
}

/// Removes the parked rows whose events are read again, and those whose position another event has got: theirs is
/// gone. What is done above the floor is not read again: its rows stay.
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

fn known(subscription: &str, rows: usize) -> Result<(), Error> {
    if rows == 0 { Err(unknown(subscription)) } else { Ok(()) }
}
