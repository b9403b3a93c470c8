//! Parked rows of a subscription.

use super::row::{self, get, micros};
use super::session::{Access, Session, Tx, params};
use crate::ledger::ParkedRow;
use crate::{Position, Result};

/// All rows of a subscription, by position.
pub(super) async fn load(tx: &mut Tx<'_>, subscription: &str) -> Result<Vec<ParkedRow>> {
    // Index: the primary key (subscription, position).
    let sql = concat!(
        "SELECT position, `key`, destination, state, attempts, ",
        micros!("next_attempt_at"),
        ", last_error
         FROM {schema}.parked
         WHERE subscription = ?
         ORDER BY position"
    );
    tx.query(sql, params![subscription]).await?.iter().map(ParkedRow::read).collect()
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
