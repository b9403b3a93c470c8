//! Builds a page from the rows of a query, within a budget; and reads events again by position.

use tokio_postgres::Row;

use super::connection::Guard;
use super::deferred;
use super::row::{self, event_columns};
use super::session::Session;
use crate::store::page_builder::PageBuilder;
pub(super) use crate::store::page_builder::payload_limit;
use crate::store::{Budget, Fetched};
use crate::{Code, Position, Result};

/// The events of the rows, in their order, as many as the budget allows, with their deferred columns.
pub(super) async fn read(session: &Session, rows: &[Row], budget: Budget) -> Result<PageBuilder> {
    let mut page = PageBuilder::new(budget, rows.len());
    for row in rows {
        if !page.take(row::position(row, 0)?, row::size_bytes(row)?, || row::event(row))? {
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
const FETCH: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM unnest($2::bigint[]) WITH ORDINALITY AS asked (position, place)
      JOIN ONLY {schema}.events USING (position)
      ORDER BY place"
);

/// See [`Store::fetch`](crate::store::Store::fetch).
pub(super) async fn fetch(conn: &mut Guard<'_>, positions: &[Position], bytes_max: usize) -> Result<Fetched> {
    if positions.is_empty() {
        return Ok(Fetched::default());
    }
    let budget = Budget { events_max: positions.len(), bytes_max };
    let asked: Vec<i64> = positions.iter().map(|position| position.get()).collect();
    let rows = match ask(conn, &asked, payload_limit(budget)).await {
        // The server cannot read a part of some row. Large columns are then read one event at a time, to find it.
        Err(error) if error.code() == Code::RowDamaged => ask(conn, &asked, -1).await?,
        rows => rows?,
    };
    Ok(read(conn.session()?, &rows, budget).await?.fetched(positions))
}

async fn ask(conn: &mut Guard<'_>, positions: &Vec<i64>, payload_bytes_max: i32) -> Result<Vec<Row>> {
    // An event that is not found counts as deleted, so a table rewrite must not hide one; `begin_read` waits for it.
    let tx = conn.begin_read().await?;
    let rows = tx.query(FETCH, &[&payload_bytes_max, positions]).await?;
    tx.commit().await?;
    Ok(rows)
}
