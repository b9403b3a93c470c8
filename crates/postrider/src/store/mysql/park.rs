//! Parked rows of a subscription.

use super::row::{self, get, micros};
use super::session::{Access, Session, Tx, params};
use crate::ledger::ParkedRow;
use crate::store::row_limit;
use crate::{Position, Result};

/// All rows of a subscription, by position.
pub(super) async fn load(tx: &mut Tx<'_>, subscription: &str) -> Result<Vec<ParkedRow>> {
    // Index: the primary key (subscription, position).
    let sql = concat!(
        "SELECT position, `key`, destination, state, attempts, ",
        micros!("next_attempt_at"),
        ", last_error, redelivery
         FROM {schema}.parked
         WHERE subscription = ?
         ORDER BY position"
    );
    tx.query(sql, params![subscription]).await?.iter().map(ParkedRow::read).collect()
}

/// Index: the primary key (subscription, position), from its beginning.
const STATES: &str = "SELECT state, COUNT(*), MIN(position)
     FROM (SELECT state, position FROM {schema}.parked WHERE subscription = ? ORDER BY position LIMIT ?) AS p
     GROUP BY state";

/// Index: the primary key (subscription, position), backwards.
const ERRORS: &str =
    "SELECT last_error FROM {schema}.parked WHERE subscription = ? AND last_error IS NOT NULL
                      ORDER BY position DESC LIMIT ?";

/// The position of the last dead or unrouted row of the key, doubled, and one more if that is dead. Index: the primary key
/// (subscription, position), from its beginning; the rows are sorted by key.
const BEHIND: &str =
    "SELECT COUNT(CASE WHEN blocked % 2 = 1 THEN 1 END), COUNT(CASE WHEN blocked % 2 = 0 THEN 1 END)
     FROM (SELECT state,
                  MAX(CASE state WHEN 'dead' THEN position * 2 + 1 WHEN 'unrouted' THEN position * 2 END)
                      OVER (PARTITION BY `key` ORDER BY position) AS blocked
           FROM (SELECT state, position, `key` FROM {schema}.parked
                 WHERE subscription = ? ORDER BY position LIMIT ?) AS p
           WHERE `key` IS NOT NULL AND state IN ('dead', 'unrouted', 'behind')) AS known
     WHERE state = 'behind' AND blocked IS NOT NULL";

/// See [`LogTx::parked_states`](crate::store::log_tx::LogTx::parked_states).
pub(super) async fn states(
    tx: &mut Tx<'_>,
    subscription: &str,
    rows_max: u64,
) -> Result<Vec<(String, i64, i64)>> {
    let rows = tx.query(STATES, params![subscription, row_limit(rows_max)]).await?;
    rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?))).collect()
}

/// See [`LogTx::parked_errors`](crate::store::log_tx::LogTx::parked_errors).
pub(super) async fn errors(tx: &mut Tx<'_>, subscription: &str, rows_max: usize) -> Result<Vec<String>> {
    let rows = tx.query(ERRORS, params![subscription, row_limit(rows_max)]).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// See [`LogTx::parked_behind`](crate::store::log_tx::LogTx::parked_behind).
pub(super) async fn behind(tx: &mut Tx<'_>, subscription: &str, rows_max: u64) -> Result<(u64, u64)> {
    let rows = tx.query(BEHIND, params![subscription, row_limit(rows_max)]).await?;
    let Some(row) = rows.first() else { return Ok((0, 0)) };
    Ok((get::<i64>(row, 0)?.unsigned_abs(), get::<i64>(row, 1)?.unsigned_abs()))
}

/// The [seal](crate::ledger::seal) of a row, as bytes, so that collations do not matter.
macro_rules! seal {
    ($row:literal) => {
        concat!(
            "CAST(CONCAT(",
            $row,
            ".state, ' ', ",
            $row,
            ".attempts, ' ',
                  COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ",
            $row,
            ".next_attempt_at), '-')) AS BINARY)"
        )
    };
}
pub(super) use seal;

/// The seals of the parked rows of a subscription, up to `rows_max` of them.
pub(super) async fn seals(
    session: &mut Session,
    subscription: &str,
    rows_max: usize,
) -> Result<Vec<(Position, String)>> {
    // Index: the primary key (subscription, position).
    let sql = concat!(
        "SELECT p.position, ",
        seal!("p"),
        " FROM {schema}.parked AS p WHERE p.subscription = ? LIMIT ?"
    );
    let rows = session.autocommit(Access::Reads, sql, params![subscription, rows_max]).await?;
    rows.iter().map(|row| Ok((row::position(row, 0)?, get(row, 1)?))).collect()
}
