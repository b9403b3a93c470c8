//! Every layout passes the suite of tables with a state per row.

use super::case::Case;
use crate::row_database::LayoutTable;

type Of<const LAYOUT: usize, const SHARED: bool = false> = LayoutTable<Case, LAYOUT, SHARED>;

postrider_testkit::rows_conformance! {
    event_outbox: Of<0>,
    outbox: Of<1>,
    outbox_events: Of<2>,
    event_outbox_shared: Of<0, true>,
    outbox_shared: Of<1, true>,
    outbox_events_shared: Of<2, true>,
}
