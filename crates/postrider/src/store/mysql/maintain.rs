//! Retention: delivered events are deleted in short transactions.
//!
//! A process that deletes, and one that creates or moves a subscription, locks the same row, that of the first migration:
//! so no subscription begins at an event while it is being deleted. Settles need no lock. They only raise floors, and what
//! they park was above the floor; floors are read before the parked rows, so a settle in between makes the batch
//! smaller, never larger.

use std::collections::BTreeSet;

use super::ranges::listed;
use super::row::{self, get, get_opt, micros};
use super::session::{Params, Tx, params};
use crate::store::{Purge, PurgeBound, PurgePlan, Purged};
use crate::{Position, Result, Timestamp};

/// The lock of retention. Index: the primary key (version).
macro_rules! lock_for {
    ($kind:literal) => {
        concat!("SELECT version FROM {schema}.migrations WHERE version = 1 ", $kind)
    };
}

/// Keeps events from being deleted until the transaction ends, and subscriptions from being created or moved.
pub(super) async fn keep_events(tx: &mut Tx<'_>) -> Result<()> {
    tx.query(lock_for!("FOR UPDATE"), Params::new()).await.map(|_| ())
}

/// See [`Store::purge`](crate::store::Store::purge).
pub(super) async fn purge(tx: &mut Tx<'_>, purge: &Purge) -> Result<Purged> {
    // Does not wait: one who deletes is enough, and subscriptions come first.
    tx.query(lock_for!("FOR UPDATE NOWAIT"), Params::new()).await?;
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

async fn bounds(tx: &mut Tx<'_>) -> Result<Vec<PurgeBound>> {
    // A floor of another history says nothing about these events: until an operator decides, it needs them all.
    let sql = "SELECT name, CASE WHEN halted IS NULL THEN floor ELSE 0 END, highest_position
               FROM {schema}.subscriptions
               ORDER BY name";
    let rows = tx.query(sql, Params::new()).await?;
    rows.iter()
        .map(|row| {
            Ok(PurgeBound {
                subscription: get(row, 0)?,
                floor: row::position(row, 1)?,
                highest: get_opt::<i64>(row, 2)?.map(Position::new),
            })
        })
        .collect()
}

/// The database's clock.
pub(super) async fn clock(tx: &mut Tx<'_>) -> Result<Timestamp> {
    let row = tx.query_opt(concat!("SELECT ", micros!("UTC_TIMESTAMP(6)")), Params::new()).await?;
    // Without an answer nothing is old.
    row.map_or(Ok(Timestamp::from_micros(i64::MIN)), |row| row::time(&row, 0))
}

/// The first events above the cursor and up to the floor, with their times.
async fn delivered(tx: &mut Tx<'_>, purge: &Purge, floor: Position) -> Result<Vec<(Position, Timestamp)>> {
    // Index: the primary key (position), one range.
    let sql = concat!(
        "SELECT position, ",
        micros!("time"),
        " FROM {schema}.events
          WHERE position > ? AND position <= ?
          ORDER BY position
          LIMIT ?"
    );
    let limit = u64::try_from(purge.events_max).unwrap_or(u64::MAX);
    let rows = tx.query(sql, params![purge.after.get(), floor.get(), limit]).await?;
    rows.iter().map(|row| Ok((row::position(row, 0)?, row::time(row, 1)?))).collect()
}

/// Positions in a range that are parked, and the highest event of every subscription.
async fn needed(
    tx: &mut Tx<'_>,
    all: &[PurgeBound],
    after: Position,
    last: Position,
) -> Result<BTreeSet<Position>> {
    // Index: the primary key (subscription, position), one range per subscription.
    let sql = "SELECT STRAIGHT_JOIN p.position
               FROM {schema}.subscriptions AS s
               JOIN {schema}.parked AS p ON p.subscription = s.name AND p.position > ? AND p.position <= ?";
    let mut needed: BTreeSet<Position> = all.iter().filter_map(|bound| bound.highest).collect();
    for row in tx.query(sql, params![after.get(), last.get()]).await? {
        needed.insert(row::position(&row, 0)?);
    }
    Ok(needed)
}

async fn delete(tx: &mut Tx<'_>, expired: &[Position]) -> Result<()> {
    // Index: the primary key (position).
    let expired = listed(expired.iter().copied());
    let sql = format!("DELETE FROM {{schema}}.events WHERE position IN ({expired})");
    tx.execute(&sql, Params::new()).await.map(|_| ())
}

async fn first_above(tx: &mut Tx<'_>, floor: Position) -> Result<Option<Timestamp>> {
    // Index: the primary key (position), one row.
    let sql = concat!(
        "SELECT ",
        micros!("time"),
        " FROM {schema}.events WHERE position > ? ORDER BY position LIMIT 1"
    );
    let row = tx.query_opt(sql, params![floor.get()]).await?;
    row.map(|row| row::time(&row, 0)).transpose()
}
