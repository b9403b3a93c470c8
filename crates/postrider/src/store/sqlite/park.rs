//! Parked rows of a subscription.

use rusqlite::{Connection, Row, ToSql, params};

use super::failure::Attempt;
use crate::ledger::{ANY, ParkedRow, Redelivery};
use crate::store::row_limit;
use crate::store::subscription::parked_state;
use crate::{Position, Timestamp};

/// Index: the primary key (subscription, position), from its beginning.
pub(super) const STATES: &str =
    "SELECT state, COUNT(*), MIN(position)
     FROM (SELECT state, position FROM postrider_parked WHERE subscription = ?1 ORDER BY position LIMIT ?2) AS p
     GROUP BY state";

/// Index: the primary key (subscription, position), backwards.
pub(super) const ERRORS: &str =
    "SELECT last_error FROM postrider_parked WHERE subscription = ?1 AND last_error IS NOT NULL
                      ORDER BY position DESC LIMIT ?2";

/// The position of the last dead or unrouted row of the key, doubled, and one more if that is dead. Index: the primary key
/// (subscription, position), from its beginning; the rows are sorted by key.
pub(super) const BEHIND: &str =
    "SELECT COUNT(CASE WHEN blocked % 2 = 1 THEN 1 END), COUNT(CASE WHEN blocked % 2 = 0 THEN 1 END)
     FROM (SELECT state,
                  MAX(CASE state WHEN 'dead' THEN position * 2 + 1 WHEN 'unrouted' THEN position * 2 END)
                      OVER (PARTITION BY key ORDER BY position) AS blocked
           FROM (SELECT state, position, key FROM postrider_parked
                 WHERE subscription = ?1 ORDER BY position LIMIT ?2) AS p
           WHERE key IS NOT NULL AND state IN ('dead', 'unrouted', 'behind')) AS known
     WHERE state = 'behind' AND blocked IS NOT NULL";

/// The [seal](crate::ledger::seal) of a row.
macro_rules! seal {
    () => {
        "state || ' ' || attempts || ' ' || coalesce(next_attempt_at, '-')"
    };
}

/// Writes rows. An existing row of the position is replaced if its seal is the known one; its `parked_at` stays. Returns
/// whether all were written.
pub(super) fn put<'k>(
    tx: &Connection,
    subscription: &str,
    rows: &[ParkedRow],
    now: i64,
    known: impl Fn(Position) -> Option<&'k str>,
) -> Attempt<bool> {
    // Indexes: the primary keys (subscription, position) and (position).
    let mut insert = tx.prepare_cached(
        "INSERT INTO postrider_parked (subscription, position, key, destination, state, attempts,
                                       next_attempt_at, last_error, parked_at, updated_at, event_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9,
                 (SELECT id FROM postrider_events WHERE position = ?2))
         ON CONFLICT (subscription, position) DO NOTHING",
    )?;
    let mut update = tx.prepare_cached(concat!(
        "UPDATE postrider_parked
         SET key = coalesce(?3, key), destination = coalesce(?4, destination), state = ?5, attempts = ?6,
             next_attempt_at = ?7, last_error = ?8, updated_at = ?9
         WHERE subscription = ?1 AND position = ?2 AND (?10 = '*' OR ?10 = ",
        seal!(),
        ")"
    ))?;
    let mut all_written = true;
    for row in rows {
        let was = known(row.position);
        let mut written = 0;
        let values = params![
            subscription,
            row.position.get(),
            row.key,
            row.destination,
            row.state.as_str(),
            row.attempts,
            row.next_attempt_at.map(Timestamp::as_micros),
            row.last_error,
            now,
        ];
        if was.is_some() {
            let values: Vec<&dyn ToSql> = values.iter().copied().chain([&was as &dyn ToSql]).collect();
            written += update.execute(&*values)?;
        }
        if was.is_none_or(|was| was == ANY) {
            written += insert.execute(values)?;
        }
        all_written &= written > 0;
    }
    Ok(all_written)
}

/// Removes rows, whatever their state is: their events were delivered. A row that does not exist is not an error.
pub(super) fn remove(tx: &Connection, subscription: &str, positions: &[Position]) -> Attempt<()> {
    // Index: the primary key (subscription, position).
    let mut statement =
        tx.prepare_cached("DELETE FROM postrider_parked WHERE subscription = ?1 AND position = ?2")?;
    for position in positions {
        statement.execute(params![subscription, position.get()])?;
    }
    Ok(())
}

/// The seals of the parked rows of a subscription, up to `rows_max` of them.
pub(super) fn seals(
    tx: &Connection,
    subscription: &str,
    rows_max: usize,
) -> Attempt<Vec<(Position, String)>> {
    // Index: the primary key (subscription, position).
    let mut statement = tx.prepare_cached(concat!(
        "SELECT position, ",
        seal!(),
        " FROM postrider_parked WHERE subscription = ?1 LIMIT ?2"
    ))?;
    let rows_max = row_limit(rows_max);
    let rows = statement
        .query_map(params![subscription, rows_max], |row| Ok((Position::new(row.get(0)?), row.get(1)?)))?;
    Ok(rows.collect::<std::result::Result<_, _>>()?)
}

/// All rows of a subscription, by position.
pub(super) fn load(tx: &Connection, subscription: &str) -> Attempt<Vec<ParkedRow>> {
    // Index: the primary key (subscription, position).
    let mut statement = tx.prepare_cached(
        "SELECT position, key, destination, state, attempts, next_attempt_at, last_error, redelivery
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
    Ok(ParkedRow {
        position,
        key: row.get(1)?,
        destination: row.get(2)?,
        state: parked_state(position, &row.get::<_, String>(3)?)?,
        attempts: row.get(4)?,
        next_attempt_at: row.get::<_, Option<i64>>(5)?.map(Timestamp::from_micros),
        last_error: row.get(6)?,
        redelivery: row.get::<_, Option<String>>(7)?.as_deref().map(Redelivery::from_word),
    })
}
