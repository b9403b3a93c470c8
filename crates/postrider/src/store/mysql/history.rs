//! The queries that show the history of an outbox.

use mysql_async::Row;

use super::row::{self, get, get_opt};
use super::session::{Params, Tx, params};
use crate::ledger::LastSeen;
use crate::{Position, Result};

/// The next position that the counter will assign. By default, MySQL's `information_schema` returns a copy that may be
/// a day old; our sessions turn that off. Index: that of the dictionary, by name.
pub(super) const NEXT: &str = "
    SELECT COALESCE(auto_increment, 1)
    FROM information_schema.tables
    WHERE table_schema = '{name}' AND table_name = 'events'";

/// The highest position ever taken, committed or not.
pub(super) async fn last_position(tx: &mut Tx<'_>) -> Result<Position> {
    let sql = NEXT.replace("{name}", tx.schema().as_str());
    let row = tx.query_opt(&sql, Params::new()).await?;
    let last = row.map_or(Ok(Position::ZERO), |row| before(&row))?;
    // MySQL's counter stops at the highest possible position.
    Ok(if last >= Position::LAST.previous() { last.max(last_row(tx).await?) } else { last })
}

/// The position before the one that the counter will assign next. The counter is unsigned, and above every position
/// once the highest possible one was assigned.
pub(super) fn before(row: &Row) -> Result<Position> {
    get(row, 0).map(below)
}

/// The same for the number itself.
pub(super) fn below(next: u64) -> Position {
    i64::try_from(next.saturating_sub(1)).map_or(Position::LAST, Position::new)
}

/// The position of the last event that exists.
pub(super) async fn last_row(tx: &mut Tx<'_>) -> Result<Position> {
    // Index: the primary key (position), its last entry.
    let row = tx.query_opt("SELECT MAX(position) FROM {schema}.events", Params::new()).await?;
    let last = row.map(|row| get_opt::<i64>(&row, 0)).transpose()?.flatten();
    Ok(last.map_or(Position::ZERO, Position::new))
}

/// The last event at or below a position.
pub(super) async fn last_at_or_below(tx: &mut Tx<'_>, position: Position) -> Result<Option<LastSeen>> {
    // Index: the primary key (position), read backwards by one row.
    let sql = "SELECT position, id
               FROM {schema}.events
               WHERE position <= ?
               ORDER BY position DESC
               LIMIT 1";
    let row = tx.query_opt(sql, params![position.get()]).await?;
    row.map(|row| Ok(LastSeen { position: row::position(&row, 0)?, id: row::uuid(&row, 1)? })).transpose()
}
