//! Looking at an outbox without changing it.

use rusqlite::Connection;

use super::super::failure::Attempt;
use super::super::lease::now;
use super::super::ledger::Ledger;
use super::super::overview::{lease, names as subscriptions};
use super::super::relays;
use super::load;
use super::sql::Names;
use crate::store::row_state::overview::{backlog, parked, place};
use crate::store::{Backlog, Epoch, Overview, SubscriptionOverview};
use crate::{Position, Timestamp};

/// See [`Store::overview`](crate::store::Store::overview).
pub(super) fn overview(snapshot: &Connection, names: &Names, backlog_max: u64) -> Attempt<Overview> {
    let newest: Option<i64> = snapshot.query_row(&names.put_into(names.sql.newest), [], |row| row.get(0))?;
    let mut all = Vec::new();
    for name in subscriptions(snapshot, Ledger::Rows)? {
        let Some(row) = load::Worked::load(snapshot, &name)? else { continue };
        all.push(SubscriptionOverview {
            epoch: Epoch(row.epoch),
            floor: Position::ZERO,
            backlog: waiting(snapshot, names, backlog_max)?,
            parked: parked(load::notes(snapshot, names)?),
            lease: lease(snapshot, Ledger::Rows, &name)?,
            relays: relays::load(snapshot, Ledger::Rows, &name)?,
            clean: row.owned.clean,
            paused: row.owned.paused,
            halted: row.halted,
            name,
        });
    }
    let last = newest.map_or(Position::ZERO, |micros| place(Timestamp::from_micros(micros)));
    let now = Timestamp::from_micros(now(snapshot)?);
    Ok(Overview { now, last, oldest: None, newest: None, subscriptions: all })
}

fn waiting(snapshot: &Connection, names: &Names, max: u64) -> Attempt<Backlog> {
    // One more than fits tells whether there are more.
    let limit = i64::try_from(max.saturating_add(1)).unwrap_or(i64::MAX);
    let mut statement = snapshot.prepare_cached(&names.put_into(names.sql.backlog))?;
    // Only a table of anybody's tells the place of the first and its time apart.
    let last = statement.column_count() - 1;
    let (events, first, oldest): (i64, Option<i64>, Option<i64>) =
        statement.query_row([limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(last)?)))?;
    let time = |micros: Option<i64>| micros.map(Timestamp::from_micros);
    Ok(backlog(events.unsigned_abs(), time(first), time(oldest), max))
}
