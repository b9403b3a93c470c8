//! Each kind of table passes the suite of tables with a state per row. A table whose delivered rows are deleted has
//! nothing that the suite could read; it has separate tests.

use crate::mapped::MappedTable;
use crate::postgres::row_state::case::Case;

postrider_testkit::rows_conformance! {
    status: MappedTable<Case, 0>,
    time: MappedTable<Case, 1>,
    noted: MappedTable<Case, 2>,
    status_shared: MappedTable<Case, 0, true>,
}
