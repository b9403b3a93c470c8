//! Events as INSERTs into a table of another layout in a SQLite file.

use super::rows::{text_of, unwritable};
use crate::layout::{RowLayout, RowTable};
use crate::{Event, Result};

/// The INSERT of one event, that answers the row's number and the microsecond of its creation. Uses no index but to keep
/// them.
pub(super) fn statement(table: &RowTable) -> Result<String> {
    match table.layout() {
        RowLayout::OutboxEvents => Ok(table.put_into_sqlite(
            "INSERT INTO {table} (aggregate_type, aggregate_id, event_type, payload)
             VALUES (?1, ?2, ?3, ?4)
             RETURNING id, CAST(round((julianday(created_at) - 2440587.5) * 86400000) AS INTEGER) * 1000",
        )),
        _ => Err(unwritable(table)),
    }
}

/// The values of a row, in the order of its columns.
pub(super) fn values<'a>(table: &RowTable, event: &'a Event) -> Result<[&'a str; 4]> {
    let Some(aggregate) = &event.aggregate else { return Err(unwritable(table)) };
    Ok([&aggregate.kind, &aggregate.id, &event.event_type, text_of(event)?])
}
