//! A relay on the table.

use std::time::Duration;

use postrider::Result;

use super::case::Case;
use crate::relay_cases::{self, relay_tests};

relay_tests! {
    outbox_events: async { Case::new().map(Some) };
}

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
