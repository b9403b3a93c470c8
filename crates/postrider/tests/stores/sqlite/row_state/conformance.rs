//! The store passes the suite of tables with a state per row.

use super::case::Case;
use crate::row_database::LayoutTable;

postrider_testkit::rows_conformance! {
    outbox_events: LayoutTable<Case, 2>,
    outbox_events_shared: LayoutTable<Case, 2, true>,
}
