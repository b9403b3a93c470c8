//! Retention: delivered events are deleted in short transactions.
//!
//! A process that deletes, and one that creates or moves a subscription, holds the same lock: so no subscription begins at an
//! event while it is being deleted. Settles need no lock. They only raise floors, and what they park was above
//! the floor; floors are read before the parked rows, so a settle in between makes the batch smaller, never larger.

use std::collections::BTreeSet;

use super::begin::LOCK;
use super::row::{self, get};
use super::session::Tx;
use super::time::Time;
use crate::store::{Purge, PurgeBound, PurgePlan, Purged};
use crate::{Code, Error, Position, Result, Timestamp};

/// The name of the lock is a text of ours, so that it meets no other one.
macro_rules! lock_of {
    ($lock:literal) => {
        concat!("SELECT ", $lock, "(hashtextextended('postrider retention of {schema}', 0))")
    };
}

/// Keeps events from being deleted, and their table from being rewritten, until the transaction ends; several may do so
/// at once.
pub(super) async fn keep_events(tx: &Tx<'_>) -> Result<()> {
    tx.query(lock_of!("pg_advisory_xact_lock_shared"), &[]).await?;
    tx.execute(LOCK, &[]).await.map(|_| ())
}

/// See [`Store::purge`](crate::store::Store::purge).
pub(super) async fn purge(tx: &Tx<'_>, purge: &Purge) -> Result<Purged> {
    lock(tx).await?;
    let all = bounds(tx).await?;
    let Some(lowest) = PurgeBound::lowest(&all) else {
        return Ok(Purged { reached: purge.after, ..Purged::default() });
    };
    let now = clock(tx).await?;
    let rows = delivered(tx, purge, lowest.floor).await?;
    let kept = match rows.last() {
        Some((last, _)) => needed(tx, &all, purge.after, *last).await?,
        None => BTreeSet::new(),
    };
    let PurgePlan { expired, reached, more } = purge.plan(now, &rows, &kept);
    if !expired.is_empty() {
        delete(tx, &expired).await?;
    }
    let held = lowest.held_back(first_above(tx, lowest.floor).await?, purge.cutoff(now));
    Ok(Purged { deleted: expired.len() as u64, reached, more, held })
}

/// Does not wait: one who deletes is enough, and subscriptions come first.
async fn lock(tx: &Tx<'_>) -> Result<()> {
    let row = tx.query_opt(lock_of!("pg_try_advisory_xact_lock"), &[]).await?;
    if row.map_or(Ok(false), |row| get(&row, 0))? {
        return Ok(());
    }
    Err(Error::new(Code::StoreBusy, "another process is deleting events or creating a subscription"))
}

async fn bounds(tx: &Tx<'_>) -> Result<Vec<PurgeBound>> {
    // A floor of another history says nothing about these events: until an operator decides, it needs them all.
    let sql = "SELECT name, CASE WHEN halted IS NULL THEN floor ELSE 0 END, highest_position
               FROM {schema}.subscriptions
               ORDER BY name";
    let rows = tx.query(sql, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(PurgeBound {
                subscription: get(row, 0)?,
                floor: row::position(row, 1)?,
                highest: get::<Option<i64>>(row, 2)?.map(Position::new),
            })
        })
        .collect()
}

async fn clock(tx: &Tx<'_>) -> Result<Timestamp> {
    let row = tx.query_opt("SELECT clock_timestamp()", &[]).await?;
    // Without an answer nothing is old.
    row.map_or(Ok(Timestamp::from_micros(i64::MIN)), |row| get::<Time>(&row, 0).map(|time| time.0))
}

/// The first events above the cursor and up to the floor, with their times.
async fn delivered(tx: &Tx<'_>, purge: &Purge, floor: Position) -> Result<Vec<(Position, Timestamp)>> {
    // Index: the primary key (position), one range.
    let sql = "SELECT position, time
               FROM ONLY {schema}.events
               WHERE position > $1::bigint AND position <= $2::bigint
               ORDER BY position
               LIMIT $3::bigint";
    let limit = i64::try_from(purge.events_max).unwrap_or(i64::MAX);
    let rows = tx.query(sql, &[&purge.after.get(), &floor.get(), &limit]).await?;
    rows.iter().map(|row| Ok((row::position(row, 0)?, get::<Time>(row, 1)?.0))).collect()
}

/// Positions in a range that are parked, and the highest event of every subscription.
async fn needed(
    tx: &Tx<'_>,
    all: &[PurgeBound],
    after: Position,
    last: Position,
) -> Result<BTreeSet<Position>> {
    // Index: the primary key (subscription, position), one range per subscription.
    let sql = "SELECT p.position
               FROM {schema}.subscriptions AS s
               CROSS JOIN LATERAL (
                   SELECT position FROM {schema}.parked
                   WHERE subscription = s.name AND position > $1::bigint AND position <= $2::bigint
               ) AS p";
    let mut needed: BTreeSet<Position> = all.iter().filter_map(|bound| bound.highest).collect();
    for row in tx.query(sql, &[&after.get(), &last.get()]).await? {
        needed.insert(row::position(&row, 0)?);
    }
    Ok(needed)
}

async fn delete(tx: &Tx<'_>, expired: &[Position]) -> Result<()> {
    // Index: the primary key (position).
    let sql = "DELETE FROM ONLY {schema}.events WHERE position = ANY ($1::bigint[])";
    let expired: Vec<i64> = expired.iter().map(|position| position.get()).collect();
    tx.execute(sql, &[&expired]).await.map(|_| ())
}

async fn first_above(tx: &Tx<'_>, floor: Position) -> Result<Option<Timestamp>> {
    // Index: the primary key (position), one row.
    let sql = "SELECT time FROM ONLY {schema}.events WHERE position > $1::bigint ORDER BY position LIMIT 1";
    let row = tx.query_opt(sql, &[&floor.get()]).await?;
    row.map(|row| get::<Time>(&row, 0).map(|time| time.0)).transpose()
}
