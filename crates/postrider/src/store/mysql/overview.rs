//! Looking at an outbox without changing it.

use super::history::{last_position, mark_at_or_below};
use super::lease::unknown;
use super::ranges::within;
use super::row::{self, get, get_opt, micros};
use super::session::{Params, Tx, params};
use super::{maintain, park, progress, relays};
use crate::ledger::Intervals;
use crate::store::{Backlog, LeaseOverview, Overview, ParkedOverview, SubscriptionOverview};
use crate::{Position, Result, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(super) async fn overview(snapshot: &mut Tx<'_>, backlog_max: u64) -> Result<Overview> {
    let last = last_position(snapshot).await?;
    let newest = match mark_at_or_below(snapshot, last).await? {
        Some(mark) => time_of(snapshot, mark.position).await?.map(|time| (mark, time)),
        None => None,
    };
    // Index: the primary key (position), one row.
    let first = concat!("SELECT ", micros!("time"), " FROM {schema}.events ORDER BY position LIMIT 1");
    let first = snapshot.query_opt(first, Params::new()).await?;
    let oldest = first.map(|row| row::time(&row, 0)).transpose()?;
    let mut subscriptions = Vec::new();
    let names = "SELECT name FROM {schema}.subscriptions ORDER BY name";
    for row in snapshot.query(names, Params::new()).await? {
        subscriptions.push(subscription(snapshot, get(&row, 0)?, last, backlog_max).await?);
    }
    let now = maintain::clock(snapshot).await?;
    Ok(Overview { now, last, oldest, newest, subscriptions })
}

async fn subscription(
    snapshot: &mut Tx<'_>,
    name: String,
    last: Position,
    backlog_max: u64,
) -> Result<SubscriptionOverview> {
    let row = progress::load(snapshot, &name).await?.ok_or_else(|| unknown(&name))?;
    let mut parked: ParkedOverview = park::load(snapshot, &name).await?.into_iter().collect();
    if let Some(first) = parked.first {
        parked.oldest = time_of(snapshot, first).await?;
    }
    Ok(SubscriptionOverview {
        epoch: row.epoch,
        floor: row.progress.done.floor(),
        backlog: backlog(snapshot, &row.progress.done, last, backlog_max).await?,
        parked,
        lease: lease(snapshot, &name).await?,
        relays: relays::load(snapshot, &name).await?,
        clean: row.clean,
        paused: row.paused,
        halted: row.halted,
        name,
    })
}

/// Counts the events in the gaps of what is done, and stops at the limit.
async fn backlog(snapshot: &mut Tx<'_>, done: &Intervals, last: Position, max: u64) -> Result<Backlog> {
    // One more than fits tells whether there are more.
    let limit = max.saturating_add(1);
    let gaps = within(done.gaps(last).into_iter().map(|(first, last)| (first.get(), last.get())));
    // Index: the primary key (position); one range per gap. No other column is read.
    let sql = format!(
        "SELECT COUNT(*), MIN(position)
         FROM (SELECT position FROM {{schema}}.events FORCE INDEX (PRIMARY)
               WHERE {gaps}
               ORDER BY position
               LIMIT {limit}) AS counted"
    );
    let Some(row) = snapshot.query_opt(&sql, Params::new()).await? else { return Ok(Backlog::default()) };
    let events = get::<i64>(&row, 0)?.unsigned_abs();
    let first = get_opt::<i64>(&row, 1)?.map(Position::new);
    let oldest = match first {
        Some(first) => time_of(snapshot, first).await?,
        None => None,
    };
    Ok(Backlog { events: events.min(max), more: events > max, first, oldest })
}

async fn time_of(snapshot: &mut Tx<'_>, position: Position) -> Result<Option<Timestamp>> {
    // Index: the primary key (position).
    let sql = concat!("SELECT ", micros!("time"), " FROM {schema}.events WHERE position = ?");
    let row = snapshot.query_opt(sql, params![position.get()]).await?;
    row.map(|row| row::time(&row, 0)).transpose()
}

pub(super) async fn lease(snapshot: &mut Tx<'_>, name: &str) -> Result<Option<LeaseOverview>> {
    // Index: the primary key (name).
    let sql = concat!("SELECT holder, ", micros!("expires_at"), " FROM {schema}.leases WHERE name = ?");
    let row = snapshot.query_opt(sql, params![name]).await?;
    row.map(|row| Ok(LeaseOverview { holder: get(&row, 0)?, expires_at: row::time(&row, 1)? })).transpose()
}
