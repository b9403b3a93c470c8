//! Rows by id, as far as a budget goes, with their payloads.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::super::connection::Guard;
use super::super::page::payload_limit;
use super::super::row::get;
use super::super::time::Time;
use super::sql::Sql;
use super::{event, lost};
use crate::Result;
use crate::layout::RowTable;
pub(super) use crate::store::row_state::read::Read;
use crate::store::row_state::read::Which;
use crate::store::row_state::refused::counted;
use crate::store::row_state::session_rows::{RowClaim, RowId};
use crate::store::{Budget, Epoch};

/// Microseconds after which the claim of somebody else is over, for a statement.
pub(super) fn foreign_timeout(table: &RowTable) -> Option<i64> {
    table.foreign_claim_timeout.map(|timeout| i64::try_from(timeout.as_micros()).unwrap_or(i64::MAX / 2))
}

/// Reads rows until the budget is used up; at least one.
pub(super) async fn read(
    turn: &mut Guard<'_>,
    sql: &Sql,
    table: &RowTable,
    ids: &[RowId],
    budget: Budget,
    which: Which,
) -> Result<Read> {
    let asked: Vec<&str> = ids.iter().map(|id| &**id).collect();
    let (small, limit) = (i64::from(payload_limit(budget)), i64::from(table.max_attempts));
    let rows = turn.read(sql.read, &[&small, &asked, &limit, &foreign_timeout(table)]).await?;
    let mut read = Read::of(&rows, budget, which, |row| event::state(row), event::body)?;
    let bare = read.bare();
    if !bare.is_empty() {
        let mut payloads = HashMap::new();
        for row in turn.read(sql.payloads, &[&bare]).await? {
            let payload = event::payload(&row, 1)?.unwrap_or_default();
            payloads.insert(get::<String>(&row, 0)?, Bytes::copy_from_slice(payload));
        }
        read.complete(payloads)?;
    }
    Ok(read)
}

/// Marks rows as being published, by compare and set. Answers which were won.
pub(super) async fn claim(
    turn: &mut Guard<'_>,
    statement: &'static str,
    table: &RowTable,
    subscription: &str,
    epoch: Epoch,
    rows: &[(RowId, i64)],
) -> Result<HashMap<RowId, RowClaim>> {
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
        return Err(lost());
    }
    let seen: HashMap<&str, i64> = rows.iter().map(|(id, attempts)| (&**id, *attempts)).collect();
    let mut won = HashMap::new();
    for row in &answer {
        if let (Some(id), Some(number)) = (get::<Option<&str>>(row, 0)?, get::<Option<i64>>(row, 2)?) {
            let attempts = counted(seen.get(id).copied().unwrap_or(0));
            won.insert(Arc::from(id), RowClaim { at: get::<Time>(row, 1)?.0, number, attempts });
        }
    }
    Ok(won)
}
