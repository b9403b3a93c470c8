//! Rows by id, as far as a budget goes, with their payloads.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::super::line::Turn;
use super::super::page::payload_limit;
use super::super::row::get;
use super::book::{Claim, RowId};
use super::event::{self, Told};
use super::sql::Sql;
use crate::layout::RowTable;
use crate::store::{Budget, Epoch};
use crate::{Code, Error, Event, Result};

/// What was read of the ids asked for.
pub(super) struct Read {
    /// In the order asked.
    pub(super) rows: Vec<ReadRow>,
    /// The first id that did not fit.
    pub(super) left: Option<RowId>,
}

/// One row and its event, unless none can be made of it.
pub(super) struct ReadRow {
    pub(super) told: Told,
    pub(super) event: Result<Event>,
}

/// Which rows of those asked for are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Those that may be handed out by a claim; others cost nothing.
    Due,
    /// All.
    Any,
}

/// Microseconds after which the claim of somebody else is over, for a statement.
pub(super) fn foreign_timeout(table: &RowTable) -> Option<i64> {
    table.foreign_claim_timeout.map(|timeout| i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX / 2))
}

/// Reads rows until the budget is used up; at least one.
pub(super) async fn read(
    turn: &mut Turn<'_>,
    sql: &Sql,
    table: &RowTable,
    ids: &[RowId],
    budget: Budget,
    which: Which,
) -> Result<Read> {
    let asked: Vec<&str> = ids.iter().map(|id| &**id).collect();
    let (small, limit) = (i64::from(payload_limit(budget)), i64::from(table.max_attempts));
    let rows = turn.read(sql.read, &[&small, &asked, &limit, &foreign_timeout(table)]).await?;
    let (mut read, mut bytes, mut bare) = (Read { rows: Vec::new(), left: None }, 0usize, Vec::new());
    for row in &rows {
        let told = Told::of(row)?;
        if which == Which::Due && !told.is_due {
            read.rows.push(ReadRow { told, event: Err(not_due()) });
            continue;
        }
        let full = bytes.saturating_add(told.bytes) > budget.bytes_max && bytes > 0;
        if full || read.rows.len() >= budget.events_max {
            read.left = Some(told.id);
            break;
        }
        bytes = bytes.saturating_add(told.bytes.max(1));
        if told.is_bare {
            bare.push(read.rows.len());
        }
        let left = told.limit.saturating_sub(told.tried()).max(1);
        read.rows.push(ReadRow { event: event::event(row, left), told });
    }
    complete(turn, sql, &mut read, &bare).await?;
    Ok(read)
}

/// Of a row that is passed by; nobody sees it.
fn not_due() -> Error {
    Error::new(Code::StoreBusy, "the row is not due")
}

/// Reads the payloads that stayed behind.
async fn complete(turn: &mut Turn<'_>, sql: &Sql, read: &mut Read, bare: &[usize]) -> Result<()> {
    if bare.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = bare.iter().map(|place| &*read.rows[*place].told.id).collect();
    let mut payloads = HashMap::new();
    for row in turn.read(sql.payloads, &[&ids]).await? {
        payloads.insert(get::<String>(&row, 0)?, Bytes::from(get::<String>(&row, 1)?));
    }
    for place in bare {
        let ReadRow { told, event } = &mut read.rows[*place];
        let payload = payloads.remove(&*told.id);
        let gone = || Error::new(Code::StoreBusy, "a row was deleted while it was read");
        let payload = payload.ok_or_else(gone)?;
        if let Ok(event) = event {
            event.payload = payload;
        }
    }
    Ok(())
}

/// Marks rows as being published, by compare and set. Answers which were won.
pub(super) async fn claim(
    turn: &mut Turn<'_>,
    statement: &'static str,
    table: &RowTable,
    subscription: &str,
    epoch: Epoch,
    rows: &[(RowId, i64)],
) -> Result<HashMap<RowId, Claim>> {
    let (ids, attempts): (Vec<&str>, Vec<i64>) = rows.iter().map(|(id, attempts)| (&**id, *attempts)).unzip();
    let server = turn.incarnation()?;
    let answer = turn
        .query(
            statement,
            &[
                &subscription,
                &epoch.0,
                &ids,
                &attempts,
                &server.started,
                &server.timeline(),
                &foreign_timeout(table),
            ],
        )
        .await?;
    if answer.is_empty() {
        return Err(Error::new(Code::StoreFailed, "the lease under which rows were claimed is over")
            .hint("nothing to do: the subscription is loaded anew"));
    }
    let mut won = HashMap::new();
    for row in &answer {
        if let (Some(id), Some(number)) = (get::<Option<&str>>(row, 0)?, get::<Option<i64>>(row, 2)?) {
            won.insert(Arc::from(id), Claim { at: get(row, 1)?, number });
        }
    }
    Ok(won)
}
