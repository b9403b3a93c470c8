//! The INSERT into a table of another layout in a SQLite file.

use super::rows::{text_of, unwritable};
use crate::layout::RowTable;
use crate::{Event, Result};

/// The INSERT of one event. Returns the row's number and its creation time in microseconds. Uses no index.
pub(super) fn statement(table: &RowTable) -> Result<String> {
    let insert = table.layout().spec().inserts.sqlite.ok_or_else(|| unwritable(table))?;
    Ok(table.put_into_sqlite(insert))
}

/// The values of each row, in the order of its columns.
pub(super) fn values<'a>(table: &RowTable, events: &'a [Event]) -> Result<Vec<[&'a str; 4]>> {
    let row = |event: &'a Event| {
        let aggregate = event.aggregate.as_ref().ok_or_else(|| unwritable(table))?;
        Ok([aggregate.kind.as_str(), &aggregate.id, &event.event_type, text_of(event)?])
    };
    events.iter().map(row).collect()
}
