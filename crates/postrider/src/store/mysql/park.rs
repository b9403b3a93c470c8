//! Parked rows of a subscription.

use mysql_async::Row;

use super::row::{self, get, get_opt, micros};
use super::session::{Access, Session, Tx, params};
use crate::ledger::ParkedRow;
use crate::store::subscription::parked_state;
use crate::{Position, Result, Timestamp};

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
    tx.query(sql, params![subscription]).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Result<ParkedRow> {
    let position = row::position(row, 0)?;
    Ok(ParkedRow {
        position,
        key: get(row, 1)?,
        destination: get(row, 2)?,
        state: parked_state(position, &get::<String>(row, 3)?)?,
        attempts: row::count(row, 4)?,
        next_attempt_at: get_opt::<i64>(row, 5)?.map(Timestamp::from_micros),
        last_error: get(row, 6)?,
    })
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
