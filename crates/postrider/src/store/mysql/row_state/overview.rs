//! Looking at an outbox without changing it.

use super::super::maintain::clock;
use super::super::overview::lease;
use super::super::relays;
use super::super::row::{get, get_opt};
use super::super::session::{Params, Tx};
use super::load;
use super::sql::Sql;
use crate::store::row_state::overview::{backlog, parked, place};
use crate::store::{Backlog, Epoch, Overview, SubscriptionOverview};
use crate::{Position, Result, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(super) async fn overview(snapshot: &mut Tx<'_>, sql: &Sql, backlog_max: u64) -> Result<Overview> {
    let newest = snapshot.query_opt(sql.newest, Params::new()).await?;
    let newest = newest.map_or(Ok(None), |row| get_opt::<i64>(&row, 0))?;
    let now = clock(snapshot).await?;
    let mut subscriptions = Vec::new();
    let names = "SELECT name, epoch, clean, paused, halted FROM {schema}.subscriptions ORDER BY name";
    for row in snapshot.query(names, Params::new()).await? {
        let name: String = get(&row, 0)?;
        subscriptions.push(SubscriptionOverview {
            epoch: Epoch(get(&row, 1)?),
            floor: Position::ZERO,
            backlog: waiting(snapshot, sql, backlog_max).await?,
            parked: parked(load::notes(snapshot, sql).await?),
            lease: lease(snapshot, &name).await?,
            relays: relays::load(snapshot, &name).await?,
            clean: get(&row, 2)?,
            paused: get(&row, 3)?,
            halted: get(&row, 4)?,
            name,
        });
    }
    let last = newest.map_or(Position::ZERO, |micros| place(Timestamp::from_micros(micros)));
    Ok(Overview { now, last, oldest: None, newest: None, subscriptions })
}

async fn waiting(snapshot: &mut Tx<'_>, sql: &Sql, max: u64) -> Result<Backlog> {
    // One more than fits tells whether there are more.
    let statement = sql.backlog.replace("{most}", &max.saturating_add(1).to_string());
    let Some(row) = snapshot.query_opt(&statement, Params::new()).await? else {
        return Ok(Backlog::default());
    };
    let time = |column| get_opt::<i64>(&row, column).map(|time| time.map(Timestamp::from_micros));
    // Only a table of anybody's tells the two apart.
    let (first, oldest) = (time(1)?, time(row.len() - 1)?);
    Ok(backlog(get::<i64>(&row, 0)?.unsigned_abs(), first, oldest, max))
}
