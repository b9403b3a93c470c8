//! Which tables a migration creates, and what it did.

use crate::layout::{Difference, RowLayout, RowTable};
use crate::store::{Migrated, RowExtras, RowsMigrated};
use crate::{Code, Error, Result};

/// What a migration did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MigrationReport {
    /// The schema of Postrider's tables, before and after.
    pub schema: Migrated,
    /// The tables of a layout with a state per row that were created; `None` for the layout `postrider`.
    pub row_tables: Option<Vec<String>>,
    /// How existing tables differ from their layout. They were not altered.
    pub differences: Vec<Difference>,
}

impl From<Migrated> for MigrationReport {
    fn from(schema: Migrated) -> Self {
        Self { schema, row_tables: None, differences: Vec::new() }
    }
}

impl From<RowsMigrated> for MigrationReport {
    fn from(RowsMigrated { ledger, created, differences }: RowsMigrated) -> Self {
        Self { schema: ledger, row_tables: Some(created), differences }
    }
}

/// The table with a state per row to create: the configured one, else that of the requested layout. `None` for the
/// layout `postrider`.
pub(super) fn table_to_create(
    configured: Option<&RowTable>,
    requested: Option<RowLayout>,
    extras: RowExtras,
) -> Result<Option<RowTable>> {
    let table = match (configured, requested) {
        (Some(table), Some(requested)) if table.layout() != requested => {
            let (is, not) = (table.layout().name(), requested.name());
            let what = format!("the outbox is configured with layout {is}, but --layout is {not}");
            return Err(
                Error::new(Code::LayoutDiffers, what).with_hint("change `layout` of the outbox, or --layout")
            );
        }
        (Some(table), _) => Some(table.clone()),
        (None, requested) => requested.map(RowTable::new),
    };
    let only_of_rows = [
        (extras.aggregate_index, "optional index aggregate-index", "the index belongs to outbox_events"),
        (extras.handlers, "optional tables for handlers", "they belong to eventlog"),
    ];
    if let (None, Some((_, part, whose))) = (&table, only_of_rows.iter().find(|(wanted, ..)| *wanted)) {
        let what = format!("the layout `postrider` has no {part}");
        return Err(Error::new(Code::LayoutDiffers, what).with_hint(format!("{whose}; remove the option")));
    }
    Ok(table)
}
