//! Parked rows of a subscription.

use std::collections::BTreeMap;

use mysql_async::Row;
use serde::Serialize;

use super::row::{self, get, get_opt, micros};
use super::session::{Work, params};
use crate::ledger::{ParkedRow, ParkedState};
use crate::{Code, Error, Position, Result, Timestamp};

/// All rows of a subscription, by position.
pub(super) async fn load(work: &mut Work<'_>, subscription: &str) -> Result<Vec<ParkedRow>> {
    // Index: the primary key (subscription, position).
    let sql = concat!(
        "SELECT position, `key`, destination, state, attempts, ",
        micros!("next_attempt_at"),
        ", last_error
         FROM {schema}.parked
         WHERE subscription = ?
         ORDER BY position"
    );
    work.query(sql, params![subscription]).await?.iter().map(read).collect()
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
}

/// Rows to write as one JSON text. Of several for one position the last counts.
pub(super) fn to_json(rows: Vec<ParkedRow>) -> Result<String> {
    let rows: BTreeMap<Position, ParkedRow> = rows.into_iter().map(|row| (row.position, row)).collect();
    let written = rows.into_values().map(|row| Written {
        p: row.position.get(),
        k: row.key,
        d: row.destination,
        s: row.state.as_str(),
        a: row.attempts,
        n: row.next_attempt_at.map(Timestamp::as_micros),
        e: row.last_error,
    });
    serde_json::to_string(&written.collect::<Vec<_>>())
        .map_err(|cause| Error::new(Code::StoreFailed, "parked rows cannot be written as JSON").source(cause))
}
