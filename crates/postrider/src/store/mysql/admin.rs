//! Verbs of the operator: subscribe, pause, halt, accept a new history.

use super::history::{last_row, mark_at_or_below};
use super::lease::unknown;
use super::ranges::listed;
use super::row::{self, get_opt};
use super::session::{Access, Session, Tx, params};
use super::writers::decided_up_to;
use super::{maintain, progress};
use crate::ledger::{Intervals, Progress};
use crate::store::{Epoch, Settled, Start};
use crate::{Error, Position, Result, Timestamp};

/// Whether the subscription exists.
pub(super) async fn is_known(session: &mut Session, subscription: &str) -> Result<bool> {
    // Index: the primary key (name).
    let sql = "SELECT 1 FROM {schema}.subscriptions WHERE name = ?";
    Ok(!session.autocommit(Access::Reads, sql, params![subscription]).await?.is_empty())
}

/// See [`Store::subscribe`](crate::store::Store::subscribe).
pub(super) async fn subscribe(tx: &mut Tx<'_>, subscription: &str, start: Start) -> Result<bool> {
    maintain::keep_events(tx).await?;
    if progress::load(tx, subscription).await?.is_some() {
        return Ok(false);
    }
    let history = tx.server().history.clone();
    // Index: the primary key (name).
    let sql = "INSERT INTO {schema}.subscriptions (name, history, done) VALUES (?, ?, '0')";
    tx.execute(sql, params![subscription, history]).await?;
    let progress = begin(tx, start).await?;
    progress::put(tx, subscription, Epoch::default(), &progress).await?;
    Ok(true)
}

/// The progress of a subscription that begins at `start`. A position the outbox has not reached yet
/// counts as its end: beyond it there is no history to compare with.
async fn begin(tx: &mut Tx<'_>, start: Start) -> Result<Progress> {
    let done = match start {
        Start::Now => visible(tx, None).await?,
        Start::Beginning => Intervals::default(),
        Start::Position(position) => {
            // Not the counter: a crash of the server may take it back to the last event.
            let end = last_row(tx).await?;
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
async fn visible(tx: &mut Tx<'_>, until: Option<Timestamp>) -> Result<Intervals> {
    // Before the snapshot, or its proof is none.
    let decided = decided_up_to(tx).await?;
    // Index: the primary key (position), all of it, once per subscription. One row per gap: what stands
    // before it and where it ends; and where the last event stands, with the end of what is decided.
    let sql = "WITH seen AS (
                   SELECT position FROM {schema}.events
                   WHERE position < COALESCE(
                       (SELECT MIN(position) FROM {schema}.events
                        WHERE time >= TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')), 9223372036854775807)
               ), steps AS (
                   SELECT COALESCE(LAG(position) OVER (ORDER BY position), 0) AS before_it, position FROM seen
               )
               SELECT before_it, position, NULL FROM steps WHERE position <> before_it + 1
               UNION ALL
               SELECT COALESCE(MAX(position), 0), NULL,
                      LEAST(?, COALESCE(
                          (SELECT MIN(position) - 1 FROM {schema}.events
                           WHERE time >= TIMESTAMPADD(MICROSECOND, ?, '1970-01-01')), 9223372036854775807))
               FROM seen
               ORDER BY 1";
    let until = until.map(Timestamp::as_micros);
    let mut done = Intervals::default();
    let mut first = Position::new(1);
    for step in tx.query(sql, params![until, decided.get(), until]).await? {
        let (last, next): (i64, Option<i64>) = (row::get(&step, 0)?, get_opt(&step, 1)?);
        if let Some(decided) = get_opt::<i64>(&step, 2)? {
            done.insert_range(Position::new(1), Position::new(decided));
        }
        done.insert_range(first, Position::new(last));
        first = next.map_or(first, Position::new);
    }
    Ok(done)
}

/// See [`Store::pause`](crate::store::Store::pause).
pub(super) async fn pause(tx: &mut Tx<'_>, subscription: &str, reason: Option<&str>) -> Result<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions SET paused = ?, updated_at = UTC_TIMESTAMP(6) WHERE name = ?";
    known(subscription, tx.execute(sql, params![reason, subscription]).await?)
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

/// Halts a subscription whose row is locked: no relay can be given an epoch meanwhile.
pub(super) async fn set_halted(tx: &mut Tx<'_>, subscription: &str, reason: &str) -> Result<()> {
    // Index: the primary key (name).
    let sql = "UPDATE {schema}.subscriptions SET halted = ?, updated_at = UTC_TIMESTAMP(6) WHERE name = ?";
    known(subscription, tx.execute(sql, params![reason, subscription]).await?)
}

/// See [`Store::accept_history`](crate::store::Store::accept_history). Raises the epoch and frees the
/// lease: an owner that still believes in the old history can no longer settle over the new progress.
pub(super) async fn accept_history(tx: &mut Tx<'_>, subscription: &str, start: Start) -> Result<()> {
    maintain::keep_events(tx).await?;
    let history = tx.server().history.clone();
    // Index: the primary key (name), of both tables.
    let row = progress::lock(tx, subscription).await?.ok_or_else(|| unknown(subscription))?;
    let epoch = Epoch(row.epoch.0 + 1);
    let sql = "UPDATE {schema}.subscriptions SET epoch = ?, halted = NULL, history = ? WHERE name = ?";
    tx.execute(sql, params![epoch.0, history, subscription]).await?;
    tx.execute("DELETE FROM {schema}.leases WHERE name = ?", params![subscription]).await?;
    // In another history other events may have these positions.
    tx.execute("DELETE FROM {schema}.absent WHERE subscription = ?", params![subscription]).await?;
    let progress = begin(tx, start).await?;
    forget_parked(tx, subscription, &progress.done).await?;
    progress::put(tx, subscription, epoch, &progress).await
}

/// Removes the parked rows whose events are read again, and those whose position another event has got: theirs is
/// gone. What is done above the floor is not read again: its rows stay.
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

fn known(subscription: &str, rows: u64) -> Result<(), Error> {
    if rows == 0 { Err(unknown(subscription)) } else { Ok(()) }
}
