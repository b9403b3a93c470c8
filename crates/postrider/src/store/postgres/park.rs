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
    let sql = "SELECT position, key, destination, state, attempts, next_attempt_at, last_error
               FROM {schema}.parked
               WHERE subscription = $1
               ORDER BY position";
    tx.query(sql, &[&subscription]).await?.iter().map(ParkedRow::read).collect()
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
