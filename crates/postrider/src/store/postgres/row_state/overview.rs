//! Looking at an outbox without changing it.

use super::super::overview::lease;
use super::super::relays;
use super::super::row::get;
use super::super::session::Tx;
use super::super::time::Time;
use super::{Rows, load};
use crate::store::row_state::overview::{backlog, parked, place};
use crate::store::{Backlog, Epoch, Overview, SubscriptionOverview};
use crate::{Position, Result, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(super) async fn overview(snapshot: &Tx<'_>, rows: &Rows, backlog_max: u64) -> Result<Overview> {
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
            backlog: waiting(snapshot, rows, backlog_max).await?,
            parked: parked(load::notes(snapshot, &rows.sql, &rows.table).await?),
            lease: lease(snapshot, &name).await?,
            relays: relays::load(snapshot, &name).await?,
            clean: get(&row, 2)?,
            paused: get(&row, 3)?,
            halted: get(&row, 4)?,
            name,
        });
    }
    let last = newest.map_or(Position::ZERO, |time| place(time.0));
    Ok(Overview { now, last, oldest: None, newest: None, subscriptions })
}

async fn waiting(snapshot: &Tx<'_>, rows: &Rows, max: u64) -> Result<Backlog> {
    // One more than fits tells whether there are more.
    let limit = i64::try_from(max.saturating_add(1)).unwrap_or(i64::MAX);
    let params = (limit, i64::from(rows.table.max_attempts));
    let Some(row) = snapshot.query_opt(rows.sql.backlog, &[&params.0, &params.1]).await? else {
        return Ok(Backlog::default());
    };
    let time = |column| get::<Option<Time>>(&row, column).map(|time| time.map(|time| time.0));
    // Only a table of anybody's tells the two apart.
    let (first, oldest) = (time(1)?, time(row.len() - 1)?);
    Ok(backlog(get::<i64>(&row, 0)?.unsigned_abs(), first, oldest, max))
}
