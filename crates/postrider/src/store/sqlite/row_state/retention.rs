//! Retention: while it is set, Postrider notes the rows it delivers, and deletes them when they are old.
//!
//! A row shows that it was delivered, but not by which program. A relay with a retention therefore notes its deliveries
//! in `postrider_row_done`, and deletes only rows with such a note.

use rusqlite::{Connection, params};

use super::super::failure::Attempt;
use super::super::lease::now;
use super::sql::Names;
use crate::Timestamp;
use crate::layout::RowTable;
use crate::store::Purge;
use crate::store::row_limit;

/// The time in notes of rows that were moved to another outbox: 9999-12-31. They never expire.
const NEVER: i64 = 253_402_214_400_000_000;

/// Notes the delivery of the row `?1`. Index: the primary key (row_id).
const NOTE: &str = "INSERT INTO postrider_row_done (row_id, done_at) VALUES (?1, ?2)
                    ON CONFLICT (row_id) DO UPDATE SET done_at = excluded.done_at";

/// The row `?1` was moved to another outbox. Index: the primary key (row_id).
const EXCLUDE: &str = "UPDATE postrider_row_done SET done_at = ?2 WHERE row_id = ?1";

/// Old notes, the oldest first. Index: postrider_row_done_done_at (done_at), from its beginning.
const OLD: &str = "SELECT row_id, done_at FROM postrider_row_done WHERE done_at < ?1
                   ORDER BY done_at, row_id LIMIT ?2";

/// Deletes the row `?1`, delivered at `?2`, of a table that cannot show deliveries. Index: the one over the id.
const DELETE_NOTED: &str = "DELETE FROM {table} AS t WHERE t.{c.id} = ?1 AND ?2 IS NOT NULL";

/// Deletes the note of the row `?1`. In a table that cannot show deliveries, a note is deleted only together with its
/// row; otherwise the row would be due again. Indexes: the primary keys.
fn delete_note(table: &RowTable) -> &'static str {
    if table.only_notes_deliveries() {
        "DELETE FROM postrider_row_done
         WHERE row_id = ?1 AND NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.{c.id} = ?1)"
    } else {
        "DELETE FROM postrider_row_done WHERE row_id = ?1"
    }
}

/// The time before which rows must have been delivered, in microseconds since 1970, and how many are deleted at a time.
/// `None` if that time is before 1970: no row is older.
fn limits(tx: &Connection, purge: &Purge) -> Attempt<Option<(i64, i64)>> {
    let cutoff = purge.cutoff(Timestamp::from_micros(now(tx)?)).as_micros();
    let rows_max = row_limit(purge.events_max);
    Ok((cutoff > 0).then_some((cutoff, rows_max)))
}

/// Deletes rows that Postrider delivered, and their notes. Returns how many rows, and how many notes.
pub(super) fn delete_own(tx: &Connection, names: &Names, purge: &Purge) -> Attempt<(u64, u64)> {
    let Some((cutoff, rows_max)) = limits(tx, purge)? else { return Ok((0, 0)) };
    let old: Vec<(String, i64)> = tx
        .prepare_cached(OLD)?
        .query_map(params![cutoff, rows_max], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let (now, mut deleted, mut notes) = (now(tx)?, 0, 0);
    let row = if names.table.only_notes_deliveries() { DELETE_NOTED } else { names.sql.delete_own };
    let (row, note) = (names.put_into(row), names.put_into(delete_note(&names.table)));
    for (id, done_at) in &old {
        deleted += tx.prepare_cached(&row)?.execute(params![id, done_at])? as u64;
        match tx.prepare_cached(&note)?.execute([id])? {
            // The table refused to delete the row: it is tried again after the other notes.
            0 => _ = tx.prepare_cached(NOTE)?.execute(params![id, now])?,
            deleted_notes => notes += deleted_notes as u64,
        }
    }
    Ok((deleted, notes))
}

/// Deletes delivered rows, whichever program delivered them. Returns how many.
pub(super) fn delete_delivered(tx: &Connection, names: &Names, purge: &Purge) -> Attempt<u64> {
    let Some((cutoff, rows_max)) = limits(tx, purge)? else { return Ok(0) };
    let statement = names.put_into(names.sql.delete_delivered);
    Ok(tx.prepare_cached(&statement)?.execute(params![cutoff, rows_max])? as u64)
}

/// Notes deliveries.
pub(super) fn note(tx: &Connection, ids: &[String]) -> Attempt<()> {
    let now = now(tx)?;
    for id in ids {
        tx.prepare_cached(NOTE)?.execute(params![id, now])?;
    }
    Ok(())
}

/// Excludes rows from retention: they were moved to another outbox.
pub(super) fn exclude(tx: &Connection, ids: &[String]) -> Attempt<()> {
    for id in ids {
        tx.prepare_cached(EXCLUDE)?.execute(params![id, NEVER])?;
    }
    Ok(())
}
