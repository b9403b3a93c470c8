//! One history of the database told from another.

use rusqlite::{Connection, OptionalExtension};

use super::failure::Attempt;
use super::row;
use crate::Position;
use crate::ledger::Mark;

/// What is different about this database, in a sentence, if anything is: it ends before what was `seen` of
/// it, or the highest event known is not where it was.
pub(super) fn change(
    snapshot: &Connection,
    last: Position,
    seen: Position,
    highest: Option<Mark>,
) -> Attempt<Option<String>> {
    if last < seen {
        return Ok(Some(format!(
            "position {seen} was seen before, but the outbox now ends at {last}: \
             an older copy of the database is in place, or its sequence was reset"
        )));
    }
    let Some(mark) = highest else { return Ok(None) };
    let Mark { position, id } = mark;
    Ok(match mark_at_or_below(snapshot, position)? {
        Some(found) if found == mark => None,
        Some(found) if found.position == position => Some(format!(
            "position {position} held event {id} and now holds {}: another copy of the database is in place",
            found.id
        )),
        _ => Some(format!(
            "event {id} at position {position}, the last one seen, is gone: it was deleted, \
             or an older copy of the database is in place"
        )),
    })
}

/// The highest position ever committed, whether its event is still there or not.
pub(super) fn last_position(snapshot: &Connection) -> Attempt<Position> {
    // No index: one row per AUTOINCREMENT table.
    let position = snapshot
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'postrider_events'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(position.map_or(Position::ZERO, Position::new))
}

/// The last event at or below a position.
pub(super) fn mark_at_or_below(snapshot: &Connection, position: Position) -> Attempt<Option<Mark>> {
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
    Ok(Some(Mark { position: row::position(row)?, id: row::uuid(row.get_ref(1)?)? }))
}
