//! Rows by id, as far as a budget goes, with their payloads; and the marks on them.

use std::collections::HashMap;

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::failure::Attempt;
use super::sql::{Marks, Names};
use crate::store::row_state::lost;
use crate::store::row_state::read::{Body, Read, RowState, Which, about};
use crate::store::row_state::refused::counted;
use crate::store::row_state::session_rows::{RowClaim, RowId};
use crate::store::{Budget, Epoch};
use crate::{Code, Error, Result, Timestamp};

/// Reads rows until the budget is used up; at least one.
pub(super) fn read(
    snapshot: &Connection,
    names: &Names,
    ids: &[RowId],
    budget: Budget,
    which: Which,
) -> Attempt<Read> {
    let mut statement = snapshot.prepare_cached(&names.put_into(names.sql.read))?;
    let (mut found, mut bytes, mut wanted) = (Vec::new(), 0usize, 0usize);
    for id in ids {
        let mut rows = statement.query([&**id])?;
        let Some(row) = rows.next()? else { continue };
        let state = state(row)?;
        let is_wanted = which == Which::Any || state.is_due;
        if is_wanted {
            bytes = bytes.saturating_add(state.bytes);
            wanted += 1;
        }
        let body = if is_wanted { body(row) } else { Err(lost()) };
        found.push((state, body));
        // One more than fits tells that it did not.
        if bytes > budget.bytes_max && wanted > 1 {
            break;
        }
    }
    Ok(Read::of(found, budget, which, |(state, _)| Ok(state.clone()), |(_, body)| body)?)
}

fn state(row: &Row<'_>) -> Attempt<RowState> {
    let headers = row.get_ref(7)?.as_bytes_or_null().ok().flatten().map_or(0, <[u8]>::len);
    let payload = match row.get_ref(6)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    Ok(RowState {
        id: row.get::<_, String>(0)?.into(),
        attempts: number(row, 11)?,
        limit: u32::try_from(number(row, 10)?.max(1)).unwrap_or(u32::MAX),
        is_due: row.get::<_, Option<bool>>(12)?.unwrap_or(false),
        is_open: row.get::<_, Option<bool>>(13)?.unwrap_or(false),
        bytes: payload + headers,
        is_bare: false,
    })
}

/// A number, whatever the column holds instead: one odd row must not keep others from being read.
fn number(row: &Row<'_>, column: usize) -> Attempt<i64> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => number,
        ValueRef::Real(number) if number >= 1.0 => i64::MAX,
        _ => 0,
    })
}

/// A row that holds something else than its layout says is damaged.
fn body(row: &Row<'_>) -> Result<Body> {
    let time = |column| row.get::<_, Option<i64>>(column).map(|time| time.map(Timestamp::from_micros));
    let read = || -> Attempt<Body> {
        let payload = match row.get_ref(6)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Bytes::copy_from_slice(bytes),
            _ => return Err(Error::new(Code::RowDamaged, "its payload is neither text nor bytes").into()),
        };
        Ok(Body {
            event_key: row.get(1)?,
            event_type: row.get(2)?,
            aggregate: about(row.get(3)?, row.get(4)?),
            key: row.get(5)?,
            payload,
            headers: row.get(7)?,
            created: time(8)?,
            read_at: time(14)?,
            topic: row.get(9)?,
            producer: None,
        })
    };
    read().map_err(Error::from)
}

/// Marks rows as being published, by compare and set. Answers which were won.
pub(super) fn mark(
    tx: &Connection,
    names: &Names,
    marks: &Marks,
    subscription: &str,
    epoch: Epoch,
    rows: &[(RowId, i64)],
) -> Attempt<HashMap<RowId, RowClaim>> {
    // Index: the primary key (name).
    let fence = "SELECT 1 FROM postrider_row_subscriptions WHERE name = ?1 AND epoch = ?2";
    let owns = tx.prepare_cached(fence)?.query_row(params![subscription, epoch.0], |_| Ok(())).optional()?;
    if owns.is_none() {
        return Err(lost().into());
    }
    // Whole seconds: the layout's column has no more.
    let at: i64 =
        tx.query_row("SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000000", [], |row| row.get(0))?;
    let mut statement = tx.prepare_cached(&names.put_into(marks.mark))?;
    let mut won = Vec::new();
    for (id, attempts) in rows {
        if statement.execute(params![&**id, attempts, at])? > 0 {
            won.push((id.clone(), counted(*attempts)));
        }
    }
    if won.is_empty() {
        return Ok(HashMap::new());
    }
    let pairs: Vec<String> = won.iter().map(|(id, attempts)| format!("[{id},{attempts}]")).collect();
    let note = "INSERT INTO postrider_row_claims (epoch, claimed_at, ids) VALUES (?1, ?2, ?3)";
    let number = tx.prepare_cached(note)?.insert(params![epoch.0, at, format!("[{}]", pairs.join(","))])?;
    let at = Timestamp::from_micros(at);
    Ok(won.into_iter().map(|(id, attempts)| (id, RowClaim { at, number, attempts })).collect())
}
