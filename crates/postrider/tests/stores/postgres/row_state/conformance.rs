//! Every layout passes the suite of tables with a state per row.

use super::case::Case;
use crate::row_database::LayoutTable;
use crate::test_layouts::on_layouts;

type Of<const LAYOUT: usize, const SHARED: bool = false> = LayoutTable<Case, LAYOUT, SHARED>;

macro_rules! conformance {
    ($($layout:ident = $index:literal, $variant:ident;)+) => {
        postrider_testkit::rows_conformance! { $($layout: Of<$index>,)+ }

        mod shared {
            use super::*;

            postrider_testkit::rows_conformance! { $($layout: Of<$index, true>,)+ }
        }
    };
}

on_layouts!(postgres, conformance);
