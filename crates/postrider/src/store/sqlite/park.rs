//! Parked rows of a subscription.

use rusqlite::{Connection, Row, params};

use super::failure::Attempt;
use crate::ledger::{ParkedRow, ParkedState};
use crate::{Code, Error, Position, Timestamp};

/// Writes rows, replacing those of the same position; when a row was first parked stays.
pub(super) fn put(tx: &Connection, subscription: &str, rows: &[ParkedRow], now: i64) -> Attempt<()> {
    // Indexes: the primary keys (subscription, position) and (position).
    let mut statement = tx.prepare_cached(
        "INSERT INTO postrider_parked (subscription, position, key, destination, state, attempts,
                                       next_attempt_at, last_error, parked_at, updated_at, event_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9,
                 (SELECT id FROM postrider_events WHERE position = ?2))
         ON CONFLICT (subscription, position) DO UPDATE
         SET key = coalesce(excluded.key, key), destination = coalesce(excluded.destination, destination),
             state = excluded.state,
             attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at,
             last_error = excluded.last_error, updated_at = excluded.updated_at",
    )?;
    for row in rows {
        statement.execute(params![
            subscription,
            row.position.get(),
            row.key,
            row.destination,
            row.state.as_str(),
            row.attempts,
            row.next_attempt_at.map(Timestamp::as_micros),
            row.last_error,
            now,
        ])?;
    }
    Ok(())
}

/// Removes rows; one that is not there is no error.
pub(super) fn remove(tx: &Connection, subscription: &str, positions: &[Position]) -> Attempt<()> {
    // Index: the primary key (subscription, position).
    let mut statement =
        tx.prepare_cached("DELETE FROM postrider_parked WHERE subscription = ?1 AND position = ?2")?;
    for position in positions {
        statement.execute(params![subscription, position.get()])?;
    }
    Ok(())
}

/// All rows of a subscription, by position.
pub(super) fn load(tx: &Connection, subscription: &str) -> Attempt<Vec<ParkedRow>> {
    // Index: the primary key (subscription, position).
    let mut statement = tx.prepare_cached(
        "SELECT position, key, destination, state, attempts, next_attempt_at, last_error
         FROM postrider_parked
         WHERE subscription = ?1
         ORDER BY position",
    )?;
    let mut rows = statement.query([subscription])?;
    let mut parked = Vec::new();
    while let Some(row) = rows.next()? {
        parked.push(read(row)?);
    }
    Ok(parked)
}

fn read(row: &Row<'_>) -> Attempt<ParkedRow> {
    let position = Position::new(row.get(0)?);
    let word: String = row.get(3)?;
    let state = ParkedState::from_word(&word).ok_or_else(|| {
        Error::new(Code::RowDamaged, format!("parked position {position} has state {word:?}"))
    })?;
    Ok(ParkedRow {
        position,
        key: row.get(1)?,
        destination: row.get(2)?,
        state,
        attempts: row.get(4)?,
        next_attempt_at: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros),
        last_error: row.get(6)?,
    })
}
