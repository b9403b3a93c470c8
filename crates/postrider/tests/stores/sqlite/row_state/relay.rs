//! A relay on the table.

use std::time::Duration;

use postrider::Result;
use postrider::layout::RowLayout;

use super::case::Case;
use crate::relay_cases::{self, relay_tests};
use crate::row_database::RowDatabase;
use crate::test_layouts::on_layouts;

macro_rules! relay_cases {
    ($($layout:ident = $index:literal, $variant:ident;)+) => {
        relay_tests! { $($layout: async { Case::create(RowLayout::$variant).await.map(Some) };)+ }
    };
}

on_layouts!(sqlite, relay_cases);

/// Both settings under which rows are marked.
#[tokio::test]
async fn rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order() -> Result<()> {
    for timeout in [None, Some(Duration::from_secs(3_600))] {
        let mut case = Case::new()?;
        case.table = case.table.shared(timeout.is_none()).foreign_claim_timeout(timeout);
        relay_cases::rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order(case).await?;
    }
    Ok(())
}
