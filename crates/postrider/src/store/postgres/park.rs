//! Parked rows of a subscription.

use super::connection::Guard;
use super::row::{self, get};
use super::session::Tx;
use crate::ledger::ParkedRow;
use crate::store::row_limit;
use crate::{Position, Result};

/// All rows of a subscription, by position.
pub(super) async fn load(tx: &Tx<'_>, subscription: &str) -> Result<Vec<ParkedRow>> {
    // Index: the primary key (subscription, position).
    let sql = "SELECT position, key, destination, state, attempts, next_attempt_at, last_error, redelivery
               FROM {schema}.parked
               WHERE subscription = $1
               ORDER BY position";
    tx.query(sql, &[&subscription]).await?.iter().map(ParkedRow::read).collect()
}

/// Index: the primary key (subscription, position), from its beginning.
const STATES: &str =
    "SELECT state, COUNT(*), MIN(position)
     FROM (SELECT state, position FROM {schema}.parked WHERE subscription = $1 ORDER BY position LIMIT $2) AS p
     GROUP BY state";

/// Index: the primary key (subscription, position), backwards.
const ERRORS: &str =
    "SELECT last_error FROM {schema}.parked WHERE subscription = $1 AND last_error IS NOT NULL
                      ORDER BY position DESC LIMIT $2";

/// The position of the last dead or unrouted row of the key, doubled, and one more if that is dead. Index: the primary key
/// (subscription, position), from its beginning; the rows are sorted by key.
const BEHIND: &str =
    "SELECT COUNT(CASE WHEN blocked % 2 = 1 THEN 1 END), COUNT(CASE WHEN blocked % 2 = 0 THEN 1 END)
     FROM (SELECT state,
                  MAX(CASE state WHEN 'dead' THEN position * 2 + 1 WHEN 'unrouted' THEN position * 2 END)
                      OVER (PARTITION BY key ORDER BY position) AS blocked
           FROM (SELECT state, position, key FROM {schema}.parked
                 WHERE subscription = $1 ORDER BY position LIMIT $2) AS p
           WHERE key IS NOT NULL AND state IN ('dead', 'unrouted', 'behind')) AS known
     WHERE state = 'behind' AND blocked IS NOT NULL";

/// See [`LogTx::parked_states`](crate::store::log_tx::LogTx::parked_states).
pub(super) async fn states(
    tx: &Tx<'_>,
    subscription: &str,
    rows_max: u64,
) -> Result<Vec<(String, i64, i64)>> {
    let rows = tx.query(STATES, &[&subscription, &row_limit(rows_max)]).await?;
    rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?))).collect()
}

/// See [`LogTx::parked_errors`](crate::store::log_tx::LogTx::parked_errors).
pub(super) async fn errors(tx: &Tx<'_>, subscription: &str, rows_max: usize) -> Result<Vec<String>> {
    let rows = tx.query(ERRORS, &[&subscription, &row_limit(rows_max)]).await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// See [`LogTx::parked_behind`](crate::store::log_tx::LogTx::parked_behind).
pub(super) async fn behind(tx: &Tx<'_>, subscription: &str, rows_max: u64) -> Result<(u64, u64)> {
    let Some(row) = tx.query_opt(BEHIND, &[&subscription, &row_limit(rows_max)]).await? else {
        return Ok((0, 0));
    };
    Ok((get::<i64>(&row, 0)?.unsigned_abs(), get::<i64>(&row, 1)?.unsigned_abs()))
}

/// The [seal](crate::ledger::seal) of a row `p`. Infinite times get the numbers that [`Time`] reads.
macro_rules! seal {
    () => {
        "concat(p.state, ' ', p.attempts, ' ',
                coalesce(CASE p.next_attempt_at WHEN 'infinity' THEN 9223372036854775807
                                                WHEN '-infinity' THEN -9222425352054775808
                         ELSE (extract(epoch FROM p.next_attempt_at) * 1000000)::bigint END::text, '-'))"
    };
}
pub(super) use seal;

/// Index: the primary key (subscription, position).
const SEALS: &str =
    concat!("SELECT p.position, ", seal!(), " FROM {schema}.parked AS p WHERE p.subscription = $1 LIMIT $2");

/// The seals of the parked rows of a subscription, up to `rows_max` of them.
pub(super) async fn seals(
    conn: &mut Guard<'_>,
    subscription: &str,
    rows_max: usize,
) -> Result<Vec<(Position, String)>> {
    let rows_max = row_limit(rows_max);
    let rows = conn.read(SEALS, &[&subscription, &rows_max]).await?;
    rows.iter().map(|row| Ok((row::position(row, 0)?, get(row, 1)?))).collect()
}

/// PostgreSQL's `text` cannot contain U+0000, which a destination may send in an error.
pub(super) fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}
