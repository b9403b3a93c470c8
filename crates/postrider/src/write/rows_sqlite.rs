//! Events as INSERTs into a table of another layout in a SQLite file.

use super::rows::{text_of, unwritable};
use crate::layout::RowTable;
use crate::{Event, Result};

/// The INSERT of one event, that answers the row's number and the microsecond of its creation. Uses no index but to keep
/// them.
pub(super) fn statement(table: &RowTable) -> Result<String> {
    let insert = table.layout().spec().inserts.sqlite.ok_or_else(|| unwritable(table))?;
    Ok(table.put_into_sqlite(insert))
}

/// The values of a row, in the order of its columns.
pub(super) fn values<'a>(table: &RowTable, event: &'a Event) -> Result<[&'a str; 4]> {
    let Some(aggregate) = &event.aggregate else { return Err(unwritable(table)) };
    Ok([&aggregate.kind, &aggregate.id, &event.event_type, text_of(event)?])
}
