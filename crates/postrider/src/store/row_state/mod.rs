//! Outboxes in tables with a state per row. [`store`] implements the operations of the relay, once for all databases;
//! [`dialect`] defines what each database implements. The other files decide without a database: which rows are
//! handed out, what a settlement means for them, what the next owner loads. See adr/0020-row-state-store.md and
//! adr/0052-one-row-state-store.md.

mod adopt;
mod claimer;
mod cleanup;
pub(crate) mod columns;
#[cfg(feature = "_server")]
pub(super) mod connections;
pub(crate) mod custom_sql;
pub(crate) mod dialect;
pub(crate) mod due_list;
pub(crate) mod event_facts;
mod fan_out_batch;
pub(crate) mod handler_types;
mod handout;
pub(crate) mod load;
mod missed;
pub(crate) mod notifications;
mod operated_rows;
mod operator;
pub(crate) mod overview;
mod parked;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod refused;
mod retention;
pub(crate) mod store;
pub(crate) mod tables;
mod takeover;
mod term;
pub(crate) mod term_rows;

pub use store::RowStateStore;
pub use tables::{RowExtras, RowsMigrated};

use crate::{Code, Error};

/// The error for a search in a mapped table on a database that does not support it.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn search_unsupported() -> Error {
    Error::new(Code::LayoutDiffers, "rows of a table of layout custom cannot be listed on this database yet")
        .with_hint("query the table directly; on PostgreSQL the command works")
}

/// The error for an aggregate without a row, which SQL does not allow.
pub(crate) fn no_row() -> Error {
    Error::new(Code::StoreFailed, "the database returned no row for a query that always has one")
}

/// The error of a caller whose lease has ended.
pub(crate) fn lease_lost() -> Error {
    Error::new(Code::StoreFailed, "the lease under which rows were read has expired")
        .with_hint("nothing to do: the subscription is loaded again")
}
