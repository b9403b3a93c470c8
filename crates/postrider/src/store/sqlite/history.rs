//! The queries that show the history of a SQLite file.

use rusqlite::{Connection, OptionalExtension};

use super::failure::Attempt;
use super::row;
use crate::Position;
use crate::ledger::LastSeen;
use crate::store::history::Seen;

/// See [`Seen::change`].
pub(super) fn change(snapshot: &Connection, seen: &Seen, last: Position) -> Attempt<Option<String>> {
    let found = match seen.highest() {
        Some(mark) => last_at_or_below(snapshot, mark.position)?.filter(|at| at.position == mark.position),
        None => None,
    };
    Ok(seen.change(last, found.map(|mark| mark.id)))
}

/// The highest position ever committed, whether or not its event still exists.
pub(super) fn last_position(snapshot: &Connection) -> Attempt<Position> {
    // No index: one row per AUTOINCREMENT table.
    let position = snapshot
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'postrider_events'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(position.map_or(Position::ZERO, Position::new))
}

/// The last event at or below a position.
pub(super) fn last_at_or_below(snapshot: &Connection, position: Position) -> Attempt<Option<LastSeen>> {
    // Index: the primary key (position), read backwards by one row.
    let mut statement = snapshot.prepare_cached(
        "SELECT position, id
         FROM postrider_events
         WHERE position <= ?1
         ORDER BY position DESC
         LIMIT 1",
    )?;
    let mut rows = statement.query([position.get()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(LastSeen { position: row::position(row)?, id: row::uuid(row.get_ref(1)?)? }))
}
