//! Rows by id, as far as a budget goes, with their payloads; and the marks on them.

use std::collections::HashMap;

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::failure::Attempt;
use super::sql::{MARK, Names, READ};
use crate::store::rows::book::{Claim, RowId};
use crate::store::rows::lost;
use crate::store::rows::read::{Body, Read, Told, Which};
use crate::store::{Budget, Epoch};
use crate::{Aggregate, Code, Error, Result, Timestamp};

/// An id as the table has it; none is an id that does not exist.
pub(super) fn number(id: &str) -> i64 {
    id.parse().unwrap_or(-1)
}

/// Reads rows until the budget is used up; at least one.
pub(super) fn read(
    snapshot: &Connection,
    names: &Names,
    ids: &[RowId],
    budget: Budget,
    which: Which,
) -> Attempt<Read> {
    let mut statement = snapshot.prepare_cached(&names.put_into(READ))?;
    let (mut found, mut bytes) = (Vec::new(), 0usize);
    for id in ids {
        let mut rows = statement.query([number(id)])?;
        let Some(row) = rows.next()? else { continue };
        let told = told(row)?;
        let is_wanted = which == Which::Any || told.is_due;
        if is_wanted {
            bytes = bytes.saturating_add(told.bytes);
        }
        let body = if is_wanted { body(row) } else { Err(lost()) };
        found.push((told, body));
        // One more than fits tells that it did not.
        if bytes > budget.bytes_max && found.len() > 1 {
            break;
        }
    }
    Ok(Read::of(found, budget, which, |(told, _)| Ok(told.clone()), |(_, body)| body)?)
}

fn told(row: &Row<'_>) -> Attempt<Told> {
    let bytes = match row.get_ref(4)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    Ok(Told {
        id: row.get::<_, i64>(0)?.to_string().into(),
        attempts: row.get(7)?,
        limit: u32::try_from(row.get::<_, i64>(6)?).unwrap_or(1).max(1),
        is_due: row.get::<_, Option<bool>>(8)?.unwrap_or(false),
        is_open: row.get::<_, Option<bool>>(9)?.unwrap_or(false),
        bytes,
        is_bare: false,
    })
}

/// A row that holds something else than its layout says is damaged.
fn body(row: &Row<'_>) -> Result<Body> {
    let read = || -> Attempt<Body> {
        let payload = match row.get_ref(4)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Bytes::copy_from_slice(bytes),
            _ => return Err(Error::new(Code::RowDamaged, "its payload is neither text nor bytes").into()),
        };
        let aggregate = Aggregate { kind: row.get(2)?, id: row.get(3)? };
        Ok(Body {
            event_key: None,
            event_type: row.get(1)?,
            key: Some(format!("{}/{}", aggregate.kind, aggregate.id)),
            aggregate,
            payload,
            headers: None,
            created: Timestamp::from_micros(row.get(5)?),
            topic: None,
            producer: None,
        })
    };
    read().map_err(Error::from)
}

/// Marks rows as being published, by compare and set. Answers which were won.
pub(super) fn claim(
    tx: &Connection,
    names: &Names,
    subscription: &str,
    epoch: Epoch,
    rows: &[(RowId, i64)],
) -> Attempt<HashMap<RowId, Claim>> {
    // Index: the primary key (name).
    let fence = "SELECT 1 FROM postrider_row_subscriptions WHERE name = ?1 AND epoch = ?2";
    let owns = tx.prepare_cached(fence)?.query_row(params![subscription, epoch.0], |_| Ok(())).optional()?;
    if owns.is_none() {
        return Err(lost().into());
    }
    // Whole seconds: the seed's column has no more.
    let at: i64 =
        tx.query_row("SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000000", [], |row| row.get(0))?;
    let mut mark = tx.prepare_cached(&names.put_into(MARK))?;
    let mut won = Vec::new();
    for (id, attempts) in rows {
        if mark.execute(params![number(id), attempts, at])? > 0 {
            won.push((id.clone(), attempts + 1));
        }
    }
    if won.is_empty() {
        return Ok(HashMap::new());
    }
    let pairs: Vec<String> = won.iter().map(|(id, attempts)| format!("[{id},{attempts}]")).collect();
    let note = "INSERT INTO postrider_row_claims (epoch, claimed_at, ids) VALUES (?1, ?2, ?3)";
    let number = tx.prepare_cached(note)?.insert(params![epoch.0, at, format!("[{}]", pairs.join(","))])?;
    let at = Timestamp::from_micros(at);
    Ok(won.into_iter().map(|(id, attempts)| (id, Claim { at, number, attempts })).collect())
}
