//! Parked rows of a subscription.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::connection::Guard;
use super::row::{self, get};
use super::session::Tx;
use super::time::Time;
use crate::ledger::{KnownRows, ParkedRow, ParkedState};
use crate::store::Epoch;
use crate::{Code, Error, Position, Result};

/// All rows of a subscription, by position.
pub(super) async fn load(tx: &Tx<'_>, subscription: &str) -> Result<Vec<ParkedRow>> {
    // Index: the primary key (subscription, position).
    let sql = "SELECT position, key, destination, state, attempts, next_attempt_at, last_error
               FROM {schema}.parked
               WHERE subscription = $1
               ORDER BY position";
    tx.query(sql, &[&subscription]).await?.iter().map(read).collect()
}

/// What of a row `p` decides about its event; see [`seal`](crate::ledger::seal). The ends of time, which have no number, as
/// [`Time`] reads them.
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

/// The seals of all rows of a subscription, or of as many as may be.
pub(super) async fn seals(
    conn: &mut Guard<'_>,
    subscription: &str,
    rows_max: usize,
) -> Result<Vec<(Position, String)>> {
    let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let rows = conn.read(SEALS, &[&subscription, &rows_max]).await?;
    rows.iter().map(|row| Ok((row::position(row, 0)?, get(row, 1)?))).collect()
}

fn read(row: &Row) -> Result<ParkedRow> {
    let position = row::position(row, 0)?;
    let word: &str = get(row, 3)?;
    let state = ParkedState::from_word(word).ok_or_else(|| {
        Error::new(Code::RowDamaged, format!("parked position {position} has state {word:?}"))
    })?;
    Ok(ParkedRow {
        position,
        key: get(row, 1)?,
        destination: get(row, 2)?,
        state,
        attempts: row::count(row, 4)?,
        next_attempt_at: get::<Option<Time>>(row, 5)?.map(|time| time.0),
        last_error: get(row, 6)?,
    })
}

/// Rows to write as one array per column, each position once: a statement may not meet a row twice.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) positions: Vec<i64>,
    pub(super) keys: Vec<Option<String>>,
    pub(super) destinations: Vec<Option<String>>,
    pub(super) states: Vec<&'static str>,
    pub(super) attempts: Vec<i64>,
    pub(super) next_attempts_at: Vec<Option<Time>>,
    pub(super) last_errors: Vec<Option<String>>,
    /// The seals they must have now.
    pub(super) seals: Vec<Option<String>>,
}

impl Rows {
    /// Of several rows for one position the last counts.
    pub(super) fn new(rows: Vec<ParkedRow>, epoch: Epoch, known: &KnownRows) -> Self {
        let rows: BTreeMap<Position, ParkedRow> = rows.into_iter().map(|row| (row.position, row)).collect();
        let mut arrays = Self::default();
        for (position, row) in rows {
            arrays.positions.push(position.get());
            arrays.keys.push(row.key.map(storable));
            arrays.destinations.push(row.destination.map(storable));
            arrays.states.push(row.state.as_str());
            arrays.attempts.push(row.attempts.into());
            arrays.next_attempts_at.push(row.next_attempt_at.map(Time));
            arrays.last_errors.push(row.last_error.map(storable));
            arrays.seals.push(known.expected(epoch, position).map(str::to_owned));
        }
        arrays
    }
}

/// PostgreSQL's text holds every character but one, and a destination may answer with that one.
pub(super) fn storable(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}
