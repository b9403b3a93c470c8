//! Every layout passes the suite of tables with a state per row, on both servers.

use super::case::RowCase;
use crate::mysql::log::case::{MariaDb, MySql};
use crate::row_database::LayoutTable;

type OnMySql<const LAYOUT: usize, const SHARED: bool = false> = LayoutTable<RowCase<MySql>, LAYOUT, SHARED>;
type OnMariaDb<const LAYOUT: usize, const SHARED: bool = false> =
    LayoutTable<RowCase<MariaDb>, LAYOUT, SHARED>;

postrider_testkit::rows_conformance! {
    event_outbox_on_mysql: OnMySql<0>,
    event_outbox_on_mariadb: OnMariaDb<0>,
    outbox_events_on_mysql: OnMySql<2>,
    outbox_events_on_mariadb: OnMariaDb<2>,
    outbox_events_shared_on_mysql: OnMySql<2, true>,
    outbox_events_shared_on_mariadb: OnMariaDb<2, true>,
}
