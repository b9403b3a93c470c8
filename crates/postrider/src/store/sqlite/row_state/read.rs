//! Reads rows by id within a budget, and marks them.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::failure::Attempt;
use super::sql::{Marks, Names};
use crate::store::row_state::dialect::SeenRow;
use crate::store::row_state::lease_lost;
use crate::store::row_state::read::{EventColumns, EventContext, Read, ReadScope, RowState, aggregate};
use crate::store::row_state::refused::attempts_after_mark;
use crate::store::row_state::term_rows::{Claims, RowClaim, RowId};
use crate::store::{Budget, Epoch};
use crate::{Code, Error, Result, Timestamp};

/// Reads rows until the budget is used up; at least one.
pub(super) fn read(
    snapshot: &Connection,
    names: &Names,
    ids: &[RowId],
    budget: Budget,
    which: ReadScope,
) -> Attempt<Read> {
    let mut statement = snapshot.prepare_cached(&names.put_into(names.sql.read))?;
    let (mut found, mut bytes, mut wanted) = (Vec::new(), 0usize, 0usize);
    for id in ids {
        let mut rows = statement.query([&**id])?;
        let Some(row) = rows.next()? else { continue };
        let state = state(row)?;
        let is_wanted = which == ReadScope::Any || state.is_due;
        if is_wanted {
            bytes = bytes.saturating_add(state.bytes);
            wanted += 1;
        }
        let columns = if is_wanted { columns(row) } else { Err(lease_lost()) };
        found.push((state, columns));
        // One row beyond the budget shows that there are more.
        if bytes > budget.bytes_max && wanted > 1 {
            break;
        }
    }
    Ok(Read::of(found, budget, which, |(state, _)| Ok(state.clone()), |(_, columns)| columns)?)
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
        lacks_payload: false,
    })
}

/// A number. Any other value is replaced by one: an unexpected value must not prevent other rows from being read.
fn number(row: &Row<'_>, column: usize) -> Attempt<i64> {
    Ok(match row.get_ref(column)? {
        ValueRef::Integer(number) => number,
        ValueRef::Real(number) if number >= 1.0 => i64::MAX,
        _ => 0,
    })
}

/// The columns of an event. A row with a value of another type is damaged.
fn columns(row: &Row<'_>) -> Result<EventColumns> {
    let time = |column| row.get::<_, Option<i64>>(column).map(|time| time.map(Timestamp::from_micros));
    let read = || -> Attempt<EventColumns> {
        let payload = match row.get_ref(6)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Bytes::copy_from_slice(bytes),
            _ => return Err(Error::new(Code::RowDamaged, "its payload is neither text nor bytes").into()),
        };
        Ok(EventColumns {
            event_key: row.get(1)?,
            event_type: row.get(2)?,
            aggregate: aggregate(row.get(3)?, row.get(4)?),
            key: row.get(5)?,
            payload,
            headers: row.get(7)?,
            created: time(8)?,
            read_at: time(14)?,
            topic: row.get(9)?,
            producer: None,
            context: EventContext::default(),
        })
    };
    read().map_err(Error::from)
}

/// Marks rows as being published, by compare and set. Returns those that were marked.
pub(super) fn mark(
    tx: &Connection,
    names: &Names,
    marks: &Marks,
    subscription: &str,
    epoch: Epoch,
    rows: &[SeenRow],
) -> Attempt<Claims> {
    // Index: the primary key (name).
    let fence = "SELECT 1 FROM postrider_row_subscriptions WHERE name = ?1 AND epoch = ?2";
    let owns = tx.prepare_cached(fence)?.query_row(params![subscription, epoch.0], |_| Ok(())).optional()?;
    if owns.is_none() {
        return Err(lease_lost().into());
    }
    // Whole seconds, as in the layout's column.
    let at: i64 =
        tx.query_row("SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000000", [], |row| row.get(0))?;
    let mut statement = tx.prepare_cached(&names.put_into(marks.mark))?;
    let mut marked = Vec::new();
    for (id, attempts) in rows {
        if statement.execute(params![&**id, attempts, at])? > 0 {
            marked.push((id.clone(), attempts_after_mark(*attempts)));
        }
    }
    if marked.is_empty() {
        return Ok(Claims::new());
    }
    let pairs: Vec<String> = marked.iter().map(|(id, attempts)| format!("[{id},{attempts}]")).collect();
    let note = "INSERT INTO postrider_row_claims (epoch, claimed_at, ids) VALUES (?1, ?2, ?3)";
    let number = tx.prepare_cached(note)?.insert(params![epoch.0, at, format!("[{}]", pairs.join(","))])?;
    let at = Timestamp::from_micros(at);
    Ok(marked.into_iter().map(|(id, attempts)| (id, RowClaim { at, number, attempts })).collect())
}
