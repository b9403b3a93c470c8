//! Reads rows by id within a budget, and marks them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::connection::Guard;
use super::super::page::payload_limit;
use super::super::row::get;
use super::super::time::Time;
use super::sql::Sql;
use crate::layout::RowTable;
use crate::store::Budget;
use crate::store::row_state::dialect::{Owner, SeenRow};
use crate::store::row_state::lease_lost;
use crate::store::row_state::read::{EventColumns, EventContext, Read, ReadScope, RowState, aggregate, uuid};
use crate::store::row_state::refused::attempts_after_mark;
use crate::store::row_state::term_rows::{Claims, RowClaim, RowId};
use crate::{ActionContext, Result};

/// Microseconds after which the mark of another publisher is considered abandoned; `None` if never.
pub(super) fn foreign_timeout(table: &RowTable) -> Option<i64> {
    table.foreign_claim_timeout.map(|timeout| i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX / 2))
}

/// Reads rows until the budget is used up; at least one.
pub(super) async fn read(
    conn: &mut Guard<'_>,
    sql: &Sql,
    table: &RowTable,
    ids: &[RowId],
    budget: Budget,
    which: ReadScope,
) -> Result<Read> {
    let ids: Vec<&str> = ids.iter().map(|id| &**id).collect();
    let (payload_max, limit) = (i64::from(payload_limit(budget)), i64::from(table.max_attempts));
    let rows = conn
        .read(
            sql.read,
            &[&payload_max, &ids, &limit, &foreign_timeout(table), &table.handler_like_patterns()],
        )
        .await?;
    let mut read = Read::of(&rows, budget, which, |row| state(row), |row| columns(row, table))?;
    let lacking_payload = read.lacking_payload();
    if !lacking_payload.is_empty() {
        let mut payloads = HashMap::new();
        for row in conn.read(sql.payloads, &[&lacking_payload]).await? {
            let bytes = payload(&row, 1)?.unwrap_or_default();
            payloads.insert(get::<String>(&row, 0)?, Bytes::copy_from_slice(bytes));
        }
        read.add_payloads(payloads)?;
    }
    Ok(read)
}

/// Marks rows as being published, by compare and set. Returns those that were marked.
pub(super) async fn mark(
    conn: &mut Guard<'_>,
    statement: &'static str,
    table: &RowTable,
    owner: Owner<'_>,
    rows: &[SeenRow],
) -> Result<Claims> {
    let (ids, attempts): (Vec<&str>, Vec<i64>) = rows.iter().map(|(id, attempts)| (&**id, *attempts)).unzip();
    let server = conn.server()?;
    let answer = conn
        .query(
            statement,
            &[
                &owner.subscription,
                &owner.epoch.0,
                &ids,
                &attempts,
                &server.started,
                &server.timeline(),
                &foreign_timeout(table),
            ],
        )
        .await?;
    if answer.is_empty() {
        return Err(lease_lost());
    }
    let seen: HashMap<&str, i64> = rows.iter().map(|(id, attempts)| (&**id, *attempts)).collect();
    let mut marked = Claims::new();
    for row in &answer {
        if let (Some(id), Some(number)) = (get::<Option<&str>>(row, 0)?, get::<Option<i64>>(row, 2)?) {
            let attempts = attempts_after_mark(seen.get(id).copied().unwrap_or(0));
            marked.insert(Arc::from(id), RowClaim { at: get::<Time>(row, 1)?.0, number, attempts });
        }
    }
    Ok(marked)
}

fn state(row: &Row) -> Result<RowState> {
    let payload = payload(row, 6)?;
    let headers: Option<&str> = get(row, 8)?;
    let length = match payload {
        Some(payload) => payload.len(),
        None => usize::try_from(get::<Option<i64>>(row, 7)?.unwrap_or(0)).unwrap_or(0),
    };
    let action = if row.len() > ACTION { get::<Option<i64>>(row, ACTION + 7)?.unwrap_or(0) } else { 0 };
    let length = length.saturating_add(usize::try_from(action).unwrap_or(0));
    Ok(RowState {
        id: get::<&str>(row, 0)?.into(),
        attempts: get(row, 13)?,
        limit: u32::try_from(get::<i64>(row, 11)?).unwrap_or(1).max(1),
        is_due: get::<Option<bool>>(row, 14)?.unwrap_or(false),
        is_open: get::<Option<bool>>(row, 15)?.unwrap_or(false),
        bytes: length + headers.map_or(0, str::len),
        lacks_payload: payload.is_none(),
    })
}

/// A payload: a text or bytes.
fn payload(row: &Row, column: usize) -> Result<Option<&[u8]>> {
    match row.columns().get(column).map(|column| column.type_()) {
        Some(&Type::BYTEA) => get(row, column),
        _ => get::<Option<&str>>(row, column).map(|text| text.map(str::as_bytes)),
    }
}

/// The first column that only a layout with actions has.
const ACTION: usize = 17;

/// Namespace, action, and the time until which a notification may be handled.
fn context(row: &Row, table: &RowTable) -> Result<EventContext> {
    if row.len() <= ACTION {
        return Ok(EventContext::default());
    }
    let time = |column| get::<Time>(row, column).map(|time| time.0);
    let action_bytes = usize::try_from(get::<i64>(row, ACTION + 7)?).unwrap_or(usize::MAX);
    let action = match get::<Option<String>>(row, ACTION + 3)? {
        Some(params) => Some(ActionContext {
            id: uuid(get(row, ACTION + 1)?)?,
            name: get(row, ACTION + 2)?,
            params,
            started: time(ACTION + 4)?,
            completed: time(ACTION + 5)?,
        }),
        None => None,
    };
    let expires_at = Some(time(ACTION + 6)?.after(table.fan_out.handle_within));
    Ok(EventContext { namespace: get(row, ACTION)?, action, action_bytes, expires_at })
}

fn columns(row: &Row, table: &RowTable) -> Result<EventColumns> {
    Ok(EventColumns {
        context: context(row, table)?,
        event_key: get(row, 1)?,
        event_type: get(row, 2)?,
        aggregate: aggregate(get(row, 3)?, get(row, 4)?),
        key: get(row, 5)?,
        payload: Bytes::copy_from_slice(payload(row, 6)?.unwrap_or_default()),
        headers: get(row, 8)?,
        created: get::<Option<Time>>(row, 9)?.map(|time| time.0),
        read_at: if row.len() > 16 { Some(get::<Time>(row, 16)?.0) } else { None },
        topic: get(row, 10)?,
        producer: get(row, 12)?,
    })
}
