//! Looking at an outbox without changing it.

use super::history::{last_position, mark_at_or_below};
use super::lease::unknown;
use super::row::get;
use super::session::Tx;
use super::time::Time;
use super::{park, progress, relays};
use crate::ledger::Intervals;
use crate::store::{Backlog, LeaseOverview, Overview, ParkedOverview, SubscriptionOverview};
use crate::{Position, Result, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(super) async fn overview(snapshot: &Tx<'_>, backlog_max: u64) -> Result<Overview> {
    let last = last_position(snapshot).await?;
    let newest = match mark_at_or_below(snapshot, last).await? {
        Some(mark) => time_of(snapshot, mark.position).await?.map(|time| (mark, time)),
        None => None,
    };
    // Index: the primary key (position), one row.
    let first =
        snapshot.query_opt("SELECT time FROM ONLY {schema}.events ORDER BY position LIMIT 1", &[]).await?;
    let oldest = first.map(|row| get::<Time>(&row, 0).map(|time| time.0)).transpose()?;
    let mut subscriptions = Vec::new();
    for row in snapshot.query("SELECT name FROM {schema}.subscriptions ORDER BY name", &[]).await? {
        subscriptions.push(subscription(snapshot, get(&row, 0)?, last, backlog_max).await?);
    }
    let clock = snapshot.query_opt("SELECT clock_timestamp()", &[]).await?;
    let now = clock.map_or(Ok(Timestamp::default()), |row| get::<Time>(&row, 0).map(|time| time.0))?;
    Ok(Overview { now, last, oldest, newest, subscriptions })
}

async fn subscription(
    snapshot: &Tx<'_>,
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
async fn backlog(snapshot: &Tx<'_>, done: &Intervals, last: Position, max: u64) -> Result<Backlog> {
    // Index: the primary key (position); one range per gap. No other column is read.
    let sql = "SELECT count(*), min(position)
               FROM (SELECT found.position
                     FROM unnest($1::bigint[], $2::bigint[]) AS gap (first, last)
                     CROSS JOIN LATERAL (
                         SELECT position FROM ONLY {schema}.events
                         WHERE position BETWEEN gap.first AND gap.last
                         ORDER BY position
                         LIMIT $3
                     ) AS found
                     ORDER BY found.position
                     LIMIT $3) AS counted";
    let (firsts, lasts): (Vec<i64>, Vec<i64>) =
        done.gaps(last).into_iter().map(|(first, last)| (first.get(), last.get())).unzip();
    // One more than fits tells whether there are more.
    let limit = i64::try_from(max.saturating_add(1)).unwrap_or(i64::MAX);
    let Some(row) = snapshot.query_opt(sql, &[&firsts, &lasts, &limit]).await? else {
        return Ok(Backlog::default());
    };
    let events = get::<i64>(&row, 0)?.unsigned_abs();
    let first = get::<Option<i64>>(&row, 1)?.map(Position::new);
    let oldest = match first {
        Some(first) => time_of(snapshot, first).await?,
        None => None,
    };
    Ok(Backlog { events: events.min(max), more: events > max, first, oldest })
}

async fn time_of(snapshot: &Tx<'_>, position: Position) -> Result<Option<Timestamp>> {
    // Index: the primary key (position).
    let sql = "SELECT time FROM ONLY {schema}.events WHERE position = $1";
    let row = snapshot.query_opt(sql, &[&position.get()]).await?;
    row.map(|row| get::<Time>(&row, 0).map(|time| time.0)).transpose()
}

pub(super) async fn lease(snapshot: &Tx<'_>, name: &str) -> Result<Option<LeaseOverview>> {
    // Index: the primary key (name).
    let sql = "SELECT holder, expires_at FROM {schema}.leases WHERE name = $1";
    let row = snapshot.query_opt(sql, &[&name]).await?;
    row.map(|row| Ok(LeaseOverview { holder: get(&row, 0)?, expires_at: get::<Time>(&row, 1)?.0 }))
        .transpose()
}
