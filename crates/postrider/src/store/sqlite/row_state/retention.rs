//! Retention: rows that were delivered from here are noted while it is set, and deleted when they are old.
//!
//! A row says that it was delivered, and not by which program. So a relay with a retention notes what it delivers in
//! `postrider_row_done`, and nothing without such a note is deleted.

use rusqlite::{Connection, params};

use super::super::failure::Attempt;
use super::super::lease::now;
use super::sql::Names;
use crate::Timestamp;
use crate::layout::RowTable;
use crate::store::Purge;

/// Of notes of rows that were handed over to another outbox: 9999-12-31, so they never grow old.
const NEVER: i64 = 253_402_214_400_000_000;

/// The row `?1` was delivered. Index: the primary key (row_id).
const NOTE: &str = "INSERT INTO postrider_row_done (row_id, done_at) VALUES (?1, ?2)
                    ON CONFLICT (row_id) DO UPDATE SET done_at = excluded.done_at";

/// The row `?1` was handed over. Index: the primary key (row_id).
const HANDED_OVER: &str = "UPDATE postrider_row_done SET done_at = ?2 WHERE row_id = ?1";

/// Notes that are old, the oldest first. Index: postrider_row_done_done_at (done_at), from its begin.
const OLD: &str = "SELECT row_id, done_at FROM postrider_row_done WHERE done_at < ?1
                   ORDER BY done_at, row_id LIMIT ?2";

/// Deletes the row `?1`, delivered at `?2`, where a note is all that tells of a delivery. Index: the one over the id.
const NOTED: &str = "DELETE FROM {table} AS t WHERE t.{c.id} = ?1 AND ?2 IS NOT NULL";

/// Forgets the row `?1`. Where the note is all that tells of a delivery it goes only with its row, or the row would be due
/// again. Indexes: the primary keys.
fn forget(table: &RowTable) -> &'static str {
    if table.only_notes_deliveries() {
        "DELETE FROM postrider_row_done
         WHERE row_id = ?1 AND NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.{c.id} = ?1)"
    } else {
        "DELETE FROM postrider_row_done WHERE row_id = ?1"
    }
}

/// Before when rows must have been delivered, in microseconds since 1970, before which there was nothing; and how many
/// go at a time.
fn limits(tx: &Connection, purge: &Purge) -> Attempt<Option<(i64, i64)>> {
    let cutoff = purge.cutoff(Timestamp::from_micros(now(tx)?)).as_micros();
    let most = i64::try_from(purge.events_max).unwrap_or(i64::MAX);
    Ok((cutoff > 0).then_some((cutoff, most)))
}

/// Deletes rows that were delivered from here, and their notes. Returns how many rows, and how many notes.
pub(super) fn delete_own(tx: &Connection, names: &Names, purge: &Purge) -> Attempt<(u64, u64)> {
    let Some((cutoff, most)) = limits(tx, purge)? else { return Ok((0, 0)) };
    let old: Vec<(String, i64)> = tx
        .prepare_cached(OLD)?
        .query_map(params![cutoff, most], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let (now, mut deleted, mut forgotten) = (now(tx)?, 0, 0);
    let row = if names.table.only_notes_deliveries() { NOTED } else { names.sql.delete_own };
    let (row, note) = (names.put_into(row), names.put_into(forget(&names.table)));
    for (id, done_at) in &old {
        deleted += tx.prepare_cached(&row)?.execute(params![id, done_at])? as u64;
        match tx.prepare_cached(&note)?.execute([id])? {
            // Its table keeps the row: it is looked at again after those that wait now.
            0 => _ = tx.prepare_cached(NOTE)?.execute(params![id, now])?,
            notes => forgotten += notes as u64,
        }
    }
    Ok((deleted, forgotten))
}

/// Deletes delivered rows, whichever program delivered them. Returns how many.
pub(super) fn delete_delivered(tx: &Connection, names: &Names, purge: &Purge) -> Attempt<u64> {
    let Some((cutoff, most)) = limits(tx, purge)? else { return Ok(0) };
    let statement = names.put_into(names.sql.delete_delivered);
    Ok(tx.prepare_cached(&statement)?.execute(params![cutoff, most])? as u64)
}

/// Notes that these rows were delivered.
pub(super) fn note(tx: &Connection, ids: &[String]) -> Attempt<()> {
    let now = now(tx)?;
    for id in ids {
        tx.prepare_cached(NOTE)?.execute(params![id, now])?;
    }
    Ok(())
}

/// These rows were handed over, and are not to be deleted.
pub(super) fn keep(tx: &Connection, ids: &[String]) -> Attempt<()> {
    for id in ids {
        tx.prepare_cached(HANDED_OVER)?.execute(params![id, NEVER])?;
    }
    Ok(())
}
