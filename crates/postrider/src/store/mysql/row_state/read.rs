//! Reads rows by id within a budget, and marks them.

use std::collections::HashMap;

use bytes::Bytes;
use mysql_async::{Row, Value};

use super::super::page::payload_limit;
use super::super::row::{get, get_opt, moment, text_id};
use super::super::session::{Access, Params, Prepared, Session, params};
use super::sql::{Ids, List, Marks, Sql, of_handler};
use crate::layout::RowTable;
use crate::store::Budget;
use crate::store::row_state::dialect::{Owner, SeenRow};
use crate::store::row_state::due_list::{DueRow, in_order};
use crate::store::row_state::lease_lost;
use crate::store::row_state::read::{EventColumns, EventContext, Read, ReadScope, RowState, aggregate, uuid};
use crate::store::row_state::refused::attempts_after_mark;
use crate::store::row_state::term_rows::{Claims, RowClaim, RowId};
use crate::{ActionContext, Code, Error, Result, Timestamp};

/// The id in the first column.
pub(super) fn id(row: &Row) -> Result<RowId> {
    text_id(row, 0).map(RowId::from)
}

/// The ids of due rows in their order.
pub(super) async fn list(
    session: &mut Session,
    sql: &Sql,
    table: &RowTable,
    rows_max: usize,
) -> Result<Vec<RowId>> {
    let statement = of_handler(sql.list.statement(), table).replace("{rows_max}", &rows_max.to_string());
    match sql.list {
        List::InOrder(_) => {
            let found = session.autocommit(Access::Reads, &statement, Params::new()).await?;
            found.iter().map(id).collect()
        }
        List::ByEvent(_) => {
            let mut due = Vec::new();
            let mut take = |row: Row| {
                due.push(DueRow {
                    due_at: moment(&row, 1)?,
                    time: moment(&row, 2)?,
                    event: text_id(&row, 3)?,
                    id: id(&row)?,
                });
                Ok(())
            };
            session.each(Prepared::Once, &statement, Params::new(), &mut take).await?;
            Ok(in_order(due, rows_max))
        }
    }
}

/// Reads rows until the budget is used up; at least one.
pub(super) async fn read(
    session: &mut Session,
    sql: &Sql,
    table: &RowTable,
    ids: &[RowId],
    budget: Budget,
    which: ReadScope,
) -> Result<Read> {
    let listed = sql.ids.listed(ids.iter().map(|id| &**id));
    let payload_max = payload_limit(budget).to_string();
    let statement =
        of_handler(sql.read, table).replace("{payload_max}", &payload_max).replace("{ids}", &listed);
    let mut found: HashMap<RowId, Row> = HashMap::with_capacity(ids.len());
    let mut take = |row: Row| {
        found.insert(id(&row)?, row);
        Ok(())
    };
    if sql.reads_binary {
        session.each(Prepared::Once, &statement, Params::new(), &mut take).await?;
    } else {
        session.autocommit(Access::Reads, &statement, Params::new()).await?.into_iter().try_for_each(take)?;
    }
    let in_order = ids.iter().filter_map(|id| found.remove(id));
    let mut read = Read::of(in_order, budget, which, state, |row| columns(row, table))?;
    let lacking_payload = read.lacking_payload();
    if !lacking_payload.is_empty() {
        let statement = sql.payloads.replace("{ids}", &sql.ids.listed(lacking_payload));
        let mut payloads = HashMap::new();
        for row in session.autocommit(Access::Reads, &statement, Params::new()).await? {
            payloads.insert(id(&row)?.to_string(), Bytes::from(get::<Vec<u8>>(&row, 1)?));
        }
        read.add_payloads(payloads)?;
    }
    Ok(read)
}

fn state(row: &Row) -> Result<RowState> {
    let lacks_payload = matches!(row.as_ref(6), None | Some(Value::NULL));
    Ok(RowState {
        id: id(row)?,
        attempts: number(row, 13)?,
        limit: u32::try_from(number(row, 11)?.max(1)).unwrap_or(u32::MAX),
        is_due: get_opt::<i64>(row, 14)? == Some(1),
        is_open: get_opt::<i64>(row, 15)? == Some(1),
        bytes: usize::try_from(get_opt::<i64>(row, 7)?.unwrap_or(0)).unwrap_or(0),
        lacks_payload,
    })
}

/// A number. A value beyond the type counts as the largest.
fn number(row: &Row, column: usize) -> Result<i64> {
    match row.as_ref(column) {
        Some(Value::UInt(number)) => Ok(i64::try_from(*number).unwrap_or(i64::MAX)),
        _ => get(row, column),
    }
}

/// The time of the event.
const CREATED: usize = 9;

/// The first column that only a layout with actions has.
const ACTION: usize = 17;

/// Namespace, action, and the time until which a notification may be handled.
fn context(row: &Row, table: &RowTable) -> Result<EventContext> {
    if row.len() <= ACTION {
        return Ok(EventContext::default());
    }
    let time = |column| moment(row, column)?.ok_or_else(no_time);
    let action = match get_opt::<String>(row, ACTION + 3)? {
        Some(params) => Some(ActionContext {
            id: uuid(&get::<String>(row, ACTION + 1)?)?,
            name: get(row, ACTION + 2)?,
            params,
            started: time(ACTION + 4)?,
            completed: time(ACTION + 5)?,
        }),
        None => None,
    };
    Ok(EventContext {
        namespace: get(row, ACTION)?,
        action,
        action_bytes: usize::try_from(get::<i64>(row, ACTION + 7)?).unwrap_or(usize::MAX),
        // The time of a notification that was inserted late counts from then.
        expires_at: Some(time(ACTION + 6)?.max(time(CREATED)?).after(table.fan_out.handle_within)),
    })
}

fn no_time() -> Error {
    Error::new(Code::RowDamaged, "it has no time")
}

fn columns(mut row: Row, table: &RowTable) -> Result<EventColumns> {
    let payload: Option<Vec<u8>> = match row.take_opt(6) {
        Some(Ok(payload)) => payload,
        _ => return Err(Error::new(Code::RowDamaged, "the payload cannot be read")),
    };
    Ok(EventColumns {
        event_key: get(&row, 1)?,
        event_type: get(&row, 2)?,
        aggregate: aggregate(get(&row, 3)?, get(&row, 4)?),
        key: get(&row, 5)?,
        payload: payload.map(Bytes::from).unwrap_or_default(),
        headers: get(&row, 8)?,
        created: moment(&row, CREATED)?,
        // Only the statement for mapped tables has this column.
        read_at: if row.len() > 16 { moment(&row, 16)? } else { None },
        topic: get(&row, 10)?,
        producer: get(&row, 12)?,
        context: context(&row, table)?,
    })
}

/// Marks rows as being published, by compare and set. Returns those that were marked.
pub(super) async fn mark(
    session: &mut Session,
    marks: &Marks,
    owner: Owner<'_>,
    rows: &[SeenRow],
) -> Result<Claims> {
    let mut tx = session.begin().await?;
    let claims = async {
        // A takeover waits for this lock until the claim is recorded. Index: the primary key (name).
        let fence =
            "SELECT epoch FROM {schema}.subscriptions WHERE name = ? AND epoch = ? LOCK IN SHARE MODE";
        if tx.query(fence, params![owner.subscription, owner.epoch.0]).await?.is_empty() {
            return Err(lease_lost());
        }
        let lock = marks.lock.replace("{ids}", &Ids::Numbers.listed(rows.iter().map(|(id, _)| &**id)));
        let seen: HashMap<&str, i64> = rows.iter().map(|(id, attempts)| (&**id, *attempts)).collect();
        let mut marked: Vec<SeenRow> = Vec::new();
        for row in tx.query(&lock, Params::new()).await? {
            let (id, attempts) = (id(&row)?, get::<i64>(&row, 1)?);
            if seen.get(&*id) == Some(&attempts) {
                marked.push((id, attempts_after_mark(attempts)));
            }
        }
        if marked.is_empty() {
            return Ok(Claims::new());
        }
        // Whole seconds, as in the layout's column.
        let clock = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP())";
        let clock = tx.query_opt(clock, Params::new()).await?.ok_or_else(lease_lost)?;
        let at = get::<i64>(&clock, 0)?;
        let mark = marks.mark.replace("{ids}", &Ids::Numbers.listed(marked.iter().map(|(id, _)| &**id)));
        tx.execute(&mark, params![at]).await?;
        let pairs: Vec<String> = marked.iter().map(|(id, attempts)| format!("[{id},{attempts}]")).collect();
        let note = "INSERT INTO {schema}.row_claims (epoch, claimed_at, ids)
                    VALUES (?, TIMESTAMPADD(MICROSECOND, ?, '1970-01-01'), ?)";
        tx.execute(note, params![owner.epoch.0, at, format!("[{}]", pairs.join(","))]).await?;
        let number = tx.query_opt("SELECT LAST_INSERT_ID()", Params::new()).await?.ok_or_else(lease_lost)?;
        let (number, at) = (get::<i64>(&number, 0)?, Timestamp::from_micros(at));
        Ok(marked.into_iter().map(|(id, attempts)| (id, RowClaim { at, number, attempts })).collect())
    }
    .await;
    tx.finish(claims).await
}
