//! Builds a page from the rows of a query, within a budget; and reads events again by position.

use std::collections::HashMap;
use std::sync::LazyLock;

use mysql_async::Row;
use uuid::Uuid;

use super::ranges::listed;
use super::row;
use super::session::{Access, Params, Prepared, Session, params};
use crate::store::page_builder::PageBuilder;
use crate::store::{Budget, Fetched, page_builder};
use crate::{Code, Error, Position, Result};

/// See [`page_builder::payload_limit`].
pub(super) fn payload_limit(budget: Budget) -> i64 {
    page_builder::payload_limit(budget).into()
}

/// The first parameters of a statement [with the event's columns](row::with_columns).
pub(super) fn small(budget: Budget) -> Params {
    let limit = payload_limit(budget);
    params![limit, limit, limit]
}

/// Adds the event of the next row to the page, if the budget allows.
pub(super) fn take(page: &mut PageBuilder, row: Row) -> Result<()> {
    let (position, widths) = (row::position(&row, 0)?, row::widths(&row)?);
    page.take(position, widths.size_bytes(), || row::event(row, &widths)).map(|_| ())
}

/// Reads the deferred columns.
pub(super) async fn complete(session: &mut Session, page: &mut PageBuilder) -> Result<()> {
    if page.deferred().len() == 0 {
        return Ok(());
    }
    // Index: the primary key (position).
    let list = listed(page.deferred().map(|event| event.position));
    let sql = format!(
        "SELECT position, id, payload, headers, action FROM {{schema}}.events WHERE position IN ({list})"
    );
    let mut found: HashMap<(Position, Uuid), Row> = HashMap::new();
    for row in session.autocommit(Access::Reads, &sql, Params::new()).await? {
        found.insert((row::position(&row, 0)?, row::uuid(&row, 1)?), row);
    }
    // Matched by id as well, so that an event never gets the payload of another.
    let columns = page.deferred().map(|event| match found.remove(&(event.position, event.event.id)) {
        Some(row) => row::deferred(row),
        None => Err(Error::new(Code::StoreBusy, "an event was deleted while it was read")),
    });
    let columns: Vec<_> = columns.collect();
    page.complete(columns)
}

/// Index: the primary key (position).
static FETCH: LazyLock<String> = LazyLock::new(|| {
    row::with_columns("SELECT {columns} FROM {schema}.events WHERE position IN ({positions})")
});

/// See [`Store::fetch`](crate::store::Store::fetch).
pub(super) async fn fetch(
    session: &mut Session,
    positions: &[Position],
    bytes_max: usize,
) -> Result<Fetched> {
    if positions.is_empty() {
        return Ok(Fetched::default());
    }
    let budget = Budget::new(positions.len(), bytes_max);
    let sql = FETCH.replace("{positions}", &listed(positions.iter().copied()));
    let mut found: HashMap<Position, Row> = HashMap::new();
    let mut keep = |row: Row| {
        found.insert(row::position(&row, 0)?, row);
        Ok(())
    };
    session.each(Prepared::Once, &sql, small(budget), &mut keep).await?;
    let mut page = PageBuilder::new(budget, positions.len());
    for row in positions.iter().filter_map(|position| found.remove(position)) {
        take(&mut page, row)?;
    }
    complete(session, &mut page).await?;
    Ok(page.fetched(positions))
}
