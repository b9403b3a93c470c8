//! Looking at an outbox without changing it.

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::Attempt;
use super::history::{last_position, mark_at_or_below};
use super::lease::{now, unknown};
use super::ledger::Ledger;
use super::{park, progress, relays};
use crate::ledger::Intervals;
use crate::store::{Backlog, LeaseOverview, Overview, ParkedOverview, SubscriptionOverview};
use crate::{Position, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(super) fn overview(snapshot: &Connection, backlog_max: u64) -> Attempt<Overview> {
    let last = last_position(snapshot)?;
    let newest = match mark_at_or_below(snapshot, last)? {
        Some(mark) => time_of(snapshot, mark.position)?.map(|time| (mark, time)),
        None => None,
    };
    // Index: the position itself, one row.
    let oldest = snapshot
        .prepare_cached("SELECT time FROM postrider_events ORDER BY position LIMIT 1")?
        .query_row([], |row| row.get(0))
        .optional()?
        .map(Timestamp::from_micros);
    let subscriptions = names(snapshot, Ledger::Log)?
        .into_iter()
        .map(|name| subscription(snapshot, name, last, backlog_max))
        .collect::<Attempt<_>>()?;
    Ok(Overview { now: Timestamp::from_micros(now(snapshot)?), last, oldest, newest, subscriptions })
}

pub(super) fn names(snapshot: &Connection, ledger: Ledger) -> Attempt<Vec<String>> {
    let mut statement =
        snapshot.prepare_cached(&ledger.put_into("SELECT name FROM {subscriptions} ORDER BY name"))?;
    let names = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(names)
}

fn subscription(
    snapshot: &Connection,
    name: String,
    last: Position,
    backlog_max: u64,
) -> Attempt<SubscriptionOverview> {
    let row = progress::load(snapshot, Ledger::Log, &name)?.ok_or_else(|| unknown(&name))?;
    let mut parked: ParkedOverview = park::load(snapshot, &name)?.into_iter().collect();
    if let Some(first) = parked.first {
        parked.oldest = time_of(snapshot, first)?;
    }
    Ok(SubscriptionOverview {
        epoch: row.epoch,
        floor: row.progress.done.floor(),
        backlog: backlog(snapshot, &row.progress.done, last, backlog_max)?,
        parked,
        lease: lease(snapshot, Ledger::Log, &name)?,
        relays: relays::load(snapshot, Ledger::Log, &name)?,
        clean: row.clean,
        paused: row.paused,
        halted: row.halted,
        name,
    })
}

/// Counts the events in the gaps of what is done, and stops at the limit.
fn backlog(snapshot: &Connection, done: &Intervals, last: Position, max: u64) -> Attempt<Backlog> {
    // Index: the primary key (position); one range per gap. No column is read, so payloads are not either.
    let mut count = snapshot.prepare_cached(
        "SELECT count(*), min(position)
         FROM (SELECT position FROM postrider_events WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT ?3)",
    )?;
    let mut backlog = Backlog::default();
    for (start, end) in done.gaps(last) {
        // One more than fits tells whether there are more.
        let left = i64::try_from(max - backlog.events).unwrap_or(i64::MAX).saturating_add(1);
        let (events, first): (i64, Option<i64>) =
            count.query_row(params![start.get(), end.get(), left], |row| Ok((row.get(0)?, row.get(1)?)))?;
        backlog.first = backlog.first.or(first.map(Position::new));
        backlog.events += events.unsigned_abs();
        if backlog.events > max {
            (backlog.events, backlog.more) = (max, true);
            break;
        }
    }
    if let Some(first) = backlog.first {
        backlog.oldest = time_of(snapshot, first)?;
    }
    Ok(backlog)
}

fn time_of(snapshot: &Connection, position: Position) -> Attempt<Option<Timestamp>> {
    // Index: the primary key (position).
    let time = snapshot
        .prepare_cached("SELECT time FROM postrider_events WHERE position = ?1")?
        .query_row([position.get()], |row| row.get(0))
        .optional()?;
    Ok(time.map(Timestamp::from_micros))
}

pub(super) fn lease(snapshot: &Connection, ledger: Ledger, name: &str) -> Attempt<Option<LeaseOverview>> {
    // Index: the primary key (name).
    let sql = "SELECT holder, expires_at FROM {leases} WHERE name = ?1";
    let mut statement = snapshot.prepare_cached(&ledger.put_into(sql))?;
    let lease = statement.query_row([name], |row| {
        Ok(LeaseOverview { holder: row.get(0)?, expires_at: Timestamp::from_micros(row.get(1)?) })
    });
    Ok(lease.optional()?)
}
