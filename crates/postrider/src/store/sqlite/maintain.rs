//! Retention: delivered events are deleted in short transactions.
//!
//! The transaction is the file's one writer from its beginning, so no subscription is created, moved or settled
//! while it decides.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Attempt;
use super::lease::now;
use crate::store::{Purge, PurgeBound, PurgePlan, Purged};
use crate::{Position, Timestamp};

/// See [`Store::purge`](crate::store::Store::purge).
pub(super) fn purge(tx: &Connection, purge: &Purge) -> Attempt<Purged> {
    let all = bounds(tx)?;
    let Some(lowest) = PurgeBound::lowest(&all) else {
        return Ok(Purged { reached: purge.after, ..Purged::default() });
    };
    let now = Timestamp::from_micros(now(tx)?);
    let rows = delivered(tx, purge, lowest.floor)?;
    let kept = match rows.last() {
        Some((last, _)) => needed(tx, &all, purge.after, *last)?,
        None => BTreeSet::new(),
    };
    let PurgePlan { expired, reached, more } = purge.plan(now, &rows, &kept);
    delete(tx, &expired)?;
    let held = lowest.held_back(first_above(tx, lowest.floor)?, purge.cutoff(now));
    Ok(Purged { deleted: expired.len() as u64, reached, more, held })
}

fn bounds(tx: &Connection) -> Attempt<Vec<PurgeBound>> {
    // A floor of another history says nothing about these events: until an operator decides, it needs them all.
    let mut statement = tx.prepare_cached(
        "SELECT name, CASE WHEN halted IS NULL THEN floor ELSE 0 END, highest_position
         FROM postrider_subscriptions
         ORDER BY name",
    )?;
    let bound = |row: &rusqlite::Row<'_>| {
        Ok(PurgeBound {
            subscription: row.get(0)?,
            floor: Position::new(row.get(1)?),
            highest: row.get::<_, Option<i64>>(2)?.map(Position::new),
        })
    };
    let all = statement.query_map([], bound)?.collect::<Result<_, _>>()?;
    Ok(all)
}

/// The first events above the cursor and up to the floor, with their times.
fn delivered(tx: &Connection, purge: &Purge, floor: Position) -> Attempt<Vec<(Position, Timestamp)>> {
    // Index: the primary key (position), one range.
    let mut statement = tx.prepare_cached(
        "SELECT position, time
         FROM postrider_events
         WHERE position > ?1 AND position <= ?2
         ORDER BY position
         LIMIT ?3",
    )?;
    let limit = i64::try_from(purge.events_max).unwrap_or(i64::MAX);
    let rows = statement.query_map(params![purge.after.get(), floor.get(), limit], |row| {
        Ok((Position::new(row.get(0)?), Timestamp::from_micros(row.get(1)?)))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Positions in a range that are parked, and the highest event of every subscription.
fn needed(
    tx: &Connection,
    all: &[PurgeBound],
    after: Position,
    last: Position,
) -> Attempt<BTreeSet<Position>> {
    let mut needed: BTreeSet<Position> = all.iter().filter_map(|bound| bound.highest).collect();
    // Index: the primary key (subscription, position), one range per subscription.
    let mut statement = tx.prepare_cached(
        "SELECT position
         FROM postrider_parked
         WHERE subscription = ?1 AND position > ?2 AND position <= ?3",
    )?;
    for PurgeBound { subscription, .. } in all {
        let parked = statement.query_map(params![subscription, after.get(), last.get()], |row| row.get(0))?;
        for position in parked {
            needed.insert(Position::new(position?));
        }
    }
    Ok(needed)
}

fn delete(tx: &Connection, expired: &[Position]) -> Attempt<()> {
    // Index: the primary key (position).
    let mut statement = tx.prepare_cached("DELETE FROM postrider_events WHERE position = ?1")?;
    for position in expired {
        statement.execute([position.get()])?;
    }
    Ok(())
}

fn first_above(tx: &Connection, floor: Position) -> Attempt<Option<Timestamp>> {
    // Index: the primary key (position), one row.
    let sql = "SELECT time FROM postrider_events WHERE position > ?1 ORDER BY position LIMIT 1";
    let time = tx.prepare_cached(sql)?.query_row([floor.get()], |row| row.get(0)).optional()?;
    Ok(time.map(Timestamp::from_micros))
}
