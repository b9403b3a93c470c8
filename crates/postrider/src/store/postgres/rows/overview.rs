//! Looking at an outbox without changing it.
//!
//! Rows have no positions that outlive a session. Here their place is the microsecond of their creation, which is
//! what they are ordered by.

use super::super::overview::lease;
use super::super::row::{count, get};
use super::super::session::Work;
use super::super::time::Time;
use super::Rows;
use crate::ledger::{ParkedRow, ParkedState};
use crate::store::{Backlog, Epoch, Overview, ParkedOverview, SubscriptionOverview};
use crate::{Position, Result, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(super) async fn overview(snapshot: &Work<'_>, rows: &Rows, backlog_max: u64) -> Result<Overview> {
    let newest = snapshot.query_opt(rows.sql.newest, &[]).await?;
    let newest = newest.map_or(Ok(None), |row| get::<Option<Time>>(&row, 0))?;
    let clock = snapshot.query_opt("SELECT clock_timestamp()", &[]).await?;
    let now = clock.map_or(Ok(Timestamp::default()), |row| get::<Time>(&row, 0).map(|time| time.0))?;
    let mut subscriptions = Vec::new();
    let sql = "SELECT name, epoch, clean, paused, halted FROM {schema}.subscriptions ORDER BY name";
    for row in snapshot.query(sql, &[]).await? {
        let name: String = get(&row, 0)?;
        subscriptions.push(SubscriptionOverview {
            epoch: Epoch(get(&row, 1)?),
            floor: Position::ZERO,
            backlog: backlog(snapshot, rows, backlog_max).await?,
            parked: parked(snapshot, rows).await?,
            lease: lease(snapshot, &name).await?,
            clean: get(&row, 2)?,
            paused: get(&row, 3)?,
            halted: get(&row, 4)?,
            name,
        });
    }
    let last = newest.map_or(Position::ZERO, |time| place(time.0));
    Ok(Overview { now, last, oldest: None, newest: None, subscriptions })
}

fn place(created: Timestamp) -> Position {
    Position::new(created.as_micros())
}

async fn backlog(snapshot: &Work<'_>, rows: &Rows, max: u64) -> Result<Backlog> {
    // One more than fits tells whether there are more.
    let limit = i64::try_from(max.saturating_add(1)).unwrap_or(i64::MAX);
    let params = (limit, i64::from(rows.table.max_attempts));
    let Some(row) = snapshot.query_opt(rows.sql.backlog, &[&params.0, &params.1]).await? else {
        return Ok(Backlog::default());
    };
    let events = get::<i64>(&row, 0)?.unsigned_abs();
    let oldest = get::<Option<Time>>(&row, 1)?.map(|time| time.0);
    Ok(Backlog { events: events.min(max), more: events > max, first: oldest.map(place), oldest })
}

async fn parked(snapshot: &Work<'_>, rows: &Rows) -> Result<ParkedOverview> {
    let mut all: Vec<ParkedRow> = Vec::new();
    for row in snapshot.query(rows.sql.load, &[&i64::from(rows.table.max_attempts)]).await? {
        let created = get::<Option<Time>>(&row, 7)?;
        let state = ParkedState::from_word(get(&row, 3)?);
        let (Some(created), Some(state)) = (created, state) else { continue };
        if get(&row, 8)? {
            continue;
        }
        all.push(ParkedRow {
            position: place(created.0),
            key: get(&row, 1)?,
            destination: get(&row, 2)?,
            state,
            attempts: count(&row, 4)?,
            next_attempt_at: get::<Option<Time>>(&row, 5)?.map(|time| time.0),
            last_error: get(&row, 6)?,
        });
    }
    all.sort_by_key(|row| row.position);
    let mut overview: ParkedOverview = all.into_iter().collect();
    overview.oldest = overview.first.map(|place| Timestamp::from_micros(place.get()));
    Ok(overview)
}
