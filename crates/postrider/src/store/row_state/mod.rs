//! Tables with a state per row, as far as no database is asked: the rows of a session, what a settlement means for the
//! rows, what a load makes of notes, what is handed out. The stores bring the statements; see
//! adr/0020-row-state-store.md.

pub(crate) mod session_rows;
pub(crate) mod handout;
pub(crate) mod due_list;
pub(crate) mod load;
pub(crate) mod overview;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod refused;
pub(crate) mod session;
pub(crate) mod start;
pub(crate) mod tables;

pub use tables::{RowExtras, RowsMigrated};

#[cfg(any(feature = "postgres", feature = "sqlite"))]
use super::{Purge, RetentionScope};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
use crate::layout::RowTable;
use crate::{Code, Error};

/// Which rows retention deletes. Where a note is all that tells of a delivery, every delivery was made from here.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn scope(trim: &Purge, table: &RowTable) -> RetentionScope {
    if table.only_notes_deliveries() { RetentionScope::Own } else { trim.scope }
}

/// The error of a table of anybody's whose rows cannot be searched here.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn unlisted() -> Error {
    Error::new(Code::LayoutDiffers, "rows of a table of layout custom cannot be listed on this database yet")
        .with_hint("query the table directly; on PostgreSQL the command works")
}

/// The error of whoever goes on after its lease is over.
pub(crate) fn lost() -> Error {
    Error::new(Code::StoreFailed, "the lease under which rows were read has expired")
        .with_hint("nothing to do: the subscription is loaded again")
}
