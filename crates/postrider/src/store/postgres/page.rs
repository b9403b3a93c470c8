//! Builds a page from the rows of a query, within a budget; and reads events again by position.

use std::sync::LazyLock;

use tokio_postgres::Row;

use super::connection::Guard;
use super::deferred;
use super::row;
use super::session::Session;
use crate::store::page_builder::PageBuilder;
pub(super) use crate::store::page_builder::payload_limit;
use crate::store::{Budget, Fetched};
use crate::{Code, Position, Result};

/// A payload limit below every length: all payloads, headers and actions are [deferred](deferred).
pub(super) const NONE_INLINE: i32 = -1;

/// Whether the server failed to read some row of a query. The error does not name the row. The caller then repeats the
/// query with [`NONE_INLINE`]: large columns are read one event at a time, which finds the damaged event.
pub(super) fn is_row_damaged<T>(answer: &Result<T>) -> bool {
    answer.as_ref().is_err_and(|error| error.code() == Code::RowDamaged)
}

/// The events of the rows, in their order and within the budget, with their deferred columns.
pub(super) async fn read(session: &Session, rows: &[Row], budget: Budget) -> Result<PageBuilder> {
    let mut page = PageBuilder::new(budget, rows.len());
    for row in rows {
        let widths = row::widths(row)?;
        if !page.take(row::position(row, 0)?, widths.size_bytes(), || row::event(row, &widths))? {
            break;
        }
    }
    if page.deferred().len() > 0 {
        let (positions, ids): (Vec<_>, Vec<_>) =
            page.deferred().map(|event| (event.position.get(), event.event.id)).unzip();
        page.complete(deferred::read(session, &positions, &ids).await?)?;
    }
    Ok(page)
}

/// Index: the primary key (position).
static FETCH: LazyLock<String> = LazyLock::new(|| {
    row::with_columns(
        "SELECT {columns} FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (position, ordinal)
         JOIN ONLY {schema}.events USING (position)
         ORDER BY ordinal",
    )
});

/// See [`Store::fetch`](crate::store::Store::fetch).
pub(super) async fn fetch(conn: &mut Guard<'_>, positions: &[Position], bytes_max: usize) -> Result<Fetched> {
    if positions.is_empty() {
        return Ok(Fetched::default());
    }
    let budget = Budget::new(positions.len(), bytes_max);
    let asked: Vec<i64> = positions.iter().map(|position| position.get()).collect();
    let mut rows = ask(conn, &asked, payload_limit(budget)).await;
    if is_row_damaged(&rows) {
        rows = ask(conn, &asked, NONE_INLINE).await;
    }
    Ok(read(conn.session()?, &rows?, budget).await?.fetched(positions))
}

async fn ask(conn: &mut Guard<'_>, positions: &Vec<i64>, payload_bytes_max: i32) -> Result<Vec<Row>> {
    // An event that is not found counts as deleted, so a table rewrite must not hide one; `begin_read` waits for it.
    let tx = conn.begin_read().await?;
    let rows = tx.query(&FETCH, &[&payload_bytes_max, positions]).await?;
    tx.commit().await?;
    Ok(rows)
}
