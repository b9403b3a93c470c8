//! A relay on every layout: order, poisoned rows, outages, crashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::sink::{Failure, Outcome};
use postrider_testkit::eventually;

use super::case::{Case, on_every_layout};
use crate::recording_sink::RecordingSink;
use crate::relay_cases::{self, KEYS, relay, relay_tests, write};
use crate::test_layouts::{STATE_PER_ROW, on_layouts};

async fn table(layout: RowLayout, is_shared: bool) -> Result<Option<Case>> {
    if !Case::is_available() {
        return Ok(None);
    }
    Ok(Some(Case::new(layout).await?.shared(is_shared)))
}

macro_rules! relay_cases {
    ($($layout:ident = $index:literal, $variant:ident;)+) => {
        relay_tests! { $($layout: table(RowLayout::$variant, false);)+ }
    };
}

on_layouts!(postgres, relay_cases);

/// On a shared table. A row of `outbox_events` is marked before it is published there: a row that cannot be updated is
/// parked and never sent.
mod shared {
    use super::*;

    #[tokio::test]
    async fn a_row_that_cannot_be_updated_is_sent_once_and_delays_no_other() -> Result<()> {
        for layout in STATE_PER_ROW {
            let Some(case) = table(layout, true).await? else { return Ok(()) };
            relay_cases::a_row_that_cannot_be_updated_is_sent_once_and_delays_no_other(case).await?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_relay_that_is_shut_down_during_an_outage_leaves_the_rows_unchanged() -> Result<()> {
    on_every_layout(async |case| {
        let layout = case.layout;
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let sink = RecordingSink::new(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Some(Outcome::Down(Failure::new("maintenance")))
        });
        write(&case, 3).await?;
        let relay = relay(case.store().await?, &sink).await?;
        eventually("the sink is called", async || Ok(asked.load(Ordering::Relaxed) > 0)).await?;
        relay.shutdown().await?;
        let waiting = format!(
            "SELECT count(*) FROM {{t}} WHERE lower(status::text) = 'pending' AND {} = 0",
            layout.spec().attempts
        );
        assert_eq!(case.one::<i64>(&waiting).await?, (KEYS * 3) as i64, "{layout:?}");
        Ok(())
    })
    .await
}

/// Both settings under which rows are marked.
#[tokio::test]
async fn rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order() -> Result<()> {
    for timeout in [None, Some(Duration::from_secs(3_600))] {
        if !Case::is_available() {
            return Ok(());
        }
        let mut case = Case::new(RowLayout::OutboxEvents).await?;
        case.table = case.table.shared(timeout.is_none()).foreign_claim_timeout(timeout);
        relay_cases::rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order(case).await?;
    }
    Ok(())
}
