//! Parked rows of a subscription.

use std::collections::BTreeMap;

use mysql_async::Row;
use serde::Serialize;

use super::row::{self, get, get_opt, micros};
use super::session::{Access, Session, Tx, params};
use crate::ledger::{KnownRows, ParkedRow, ParkedState};
use crate::store::Epoch;
use crate::{Code, Error, Position, Result, Timestamp};

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
    let word: String = get(row, 3)?;
    let state = ParkedState::from_word(&word).ok_or_else(|| {
        Error::new(Code::RowDamaged, format!("parked position {position} has state {word:?}"))
    })?;
    Ok(ParkedRow {
        position,
        key: get(row, 1)?,
        destination: get(row, 2)?,
        state,
        attempts: row::count(row, 4)?,
        next_attempt_at: get_opt::<i64>(row, 5)?.map(Timestamp::from_micros),
        last_error: get(row, 6)?,
    })
}

/// What of a row decides about its event; see [`seal`](crate::ledger::seal). As bytes: collations are of no matter.
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

/// The seals of all rows of a subscription, or of as many as may be.
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

/// A row to write, as JSON for the server to take apart again.
#[derive(Debug, Serialize)]
struct Written {
    p: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<String>,
    s: &'static str,
    a: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<String>,
    /// The seal it must have now.
    #[serde(skip_serializing_if = "Option::is_none")]
    w: Option<String>,
}

/// A row to remove, in the same way.
#[derive(Debug, Serialize)]
struct Removed {
    p: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    w: Option<String>,
}

/// Rows to remove as one JSON text.
pub(super) fn removed_to_json(positions: &[Position], epoch: Epoch, known: &KnownRows) -> Result<String> {
    let removed = positions.iter().map(|position| Removed {
        p: position.get(),
        w: known.expected(epoch, *position).map(str::to_owned),
    });
    json(&removed.collect::<Vec<_>>())
}

/// Rows to write as one JSON text. Of several for one position the last counts.
pub(super) fn to_json(rows: Vec<ParkedRow>, epoch: Epoch, known: &KnownRows) -> Result<String> {
    let rows: BTreeMap<Position, ParkedRow> = rows.into_iter().map(|row| (row.position, row)).collect();
    let written = rows.into_values().map(|row| Written {
        p: row.position.get(),
        k: row.key,
        d: row.destination,
        s: row.state.as_str(),
        a: row.attempts,
        n: row.next_attempt_at.map(Timestamp::as_micros),
        e: row.last_error,
        w: known.expected(epoch, row.position).map(str::to_owned),
    });
    json(&written.collect::<Vec<_>>())
}

fn json(rows: &impl Serialize) -> Result<String> {
    serde_json::to_string(rows).map_err(|cause| {
        Error::new(Code::StoreFailed, "parked rows cannot be written as JSON").with_source(cause)
    })
}
