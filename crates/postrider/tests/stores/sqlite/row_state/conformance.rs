//! The store passes the suite of tables with a state per row.

use super::case::Case;
use crate::row_database::LayoutTable;
use crate::test_layouts::on_layouts;

macro_rules! conformance {
    ($($layout:ident = $index:literal, $variant:ident;)+) => {
        postrider_testkit::rows_conformance! { $($layout: LayoutTable<Case, $index>,)+ }

        mod shared {
            use super::*;

            postrider_testkit::rows_conformance! { $($layout: LayoutTable<Case, $index, true>,)+ }
        }
    };
}

on_layouts!(sqlite, conformance);
