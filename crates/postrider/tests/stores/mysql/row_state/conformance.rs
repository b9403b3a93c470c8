//! Every layout passes the suite of tables with a state per row, on both servers.

use super::case::RowCase;
use crate::mysql::log::case::{MariaDb, MySql};
use crate::row_database::LayoutTable;
use crate::test_layouts::on_layouts;

type OnMySql<const LAYOUT: usize, const SHARED: bool = false> = LayoutTable<RowCase<MySql>, LAYOUT, SHARED>;
type OnMariaDb<const LAYOUT: usize, const SHARED: bool = false> =
    LayoutTable<RowCase<MariaDb>, LAYOUT, SHARED>;

macro_rules! conformance {
    ($($layout:ident = $index:literal, $variant:ident;)+) => {
        mod on_mysql {
            use super::*;

            postrider_testkit::rows_conformance! { $($layout: OnMySql<$index>,)+ }
        }

        mod on_mariadb {
            use super::*;

            postrider_testkit::rows_conformance! { $($layout: OnMariaDb<$index>,)+ }
        }
    };
}

macro_rules! shared_conformance {
    ($($layout:ident = $index:literal, $variant:ident;)+) => {
        mod shared_on_mysql {
            use super::*;

            postrider_testkit::rows_conformance! { $($layout: OnMySql<$index, true>,)+ }
        }

        mod shared_on_mariadb {
            use super::*;

            postrider_testkit::rows_conformance! { $($layout: OnMariaDb<$index, true>,)+ }
        }
    };
}

on_layouts!(mysql, conformance);
on_layouts!(mysql_shared, shared_conformance);
