//! A whole relay on every layout: order, poison, outage, death.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::sink::{Failure, Outcome};
use postrider::store::Store;
use postrider_testkit::conformance::rows::Refusing;

use super::case::{Case, on_every_layout};
use crate::relay_cases::{self, KEYS, Table, eventually, relay, write};
use crate::taker::Taker;

impl Case {
    fn attempts(&self) -> &'static str {
        match self.layout {
            RowLayout::EventOutbox => "attempts",
            RowLayout::Outbox => "retry_count",
            RowLayout::OutboxEvents | RowLayout::Custom => "attempt_count",
        }
    }

    /// The last errors of the rows that our notes call dead.
    pub(crate) async fn dead(&self) -> Result<Vec<String>> {
        self.all("SELECT coalesce(last_error, '') FROM {ledger}.row_notes WHERE state = 'dead'").await
    }

    /// Claims that are written down.
    pub(crate) async fn claims(&self) -> Result<usize> {
        Ok(self.one::<i64>("SELECT count(*) FROM {ledger}.row_claims").await? as usize)
    }
}

impl Table for Case {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        Case::store(self).await
    }

    async fn write(&self, key: &str, number: usize) -> Result<()> {
        self.run(&self.insert(key, number)).await
    }

    async fn delivered(&self) -> Result<usize> {
        let sql = "SELECT count(*) FROM {t} WHERE lower(status::text) IN ('sent', 'published')";
        Ok(self.one::<i64>(sql).await? as usize)
    }

    async fn undelivered(&self) -> Result<Vec<(u32, bool)>> {
        let sql = format!(
            "SELECT {}::int * 2 + (lower(status::text) = 'failed')::int FROM {{t}}
             WHERE lower(status::text) NOT IN ('sent', 'published')",
            self.attempts()
        );
        let all = self.all::<i32>(&sql).await?;
        Ok(all.into_iter().map(|both| (both.unsigned_abs() / 2, both % 2 == 1)).collect())
    }

    async fn tries_max(&self) -> Result<u32> {
        let sql = format!("SELECT max({})::int FROM {{t}}", self.attempts());
        Ok(self.one::<i32>(&sql).await?.unsigned_abs())
    }

    async fn dead(&self) -> Result<Vec<String>> {
        Case::dead(self).await
    }

    async fn claims(&self) -> Result<usize> {
        Case::claims(self).await
    }

    async fn refuse(&self, key: &str, number: usize) -> Result<bool> {
        let row = format!(
            "SELECT id::text FROM {{t}} AS t WHERE t::text LIKE '%{key}%' AND payload->>'n' = '{number}'"
        );
        let id: String = self.one(&row).await?;
        Case::refuse(self, "{t}", "old.id::text", &[&id], Refusing::WithAnError).await
    }

    async fn refuse_to_give_back(&self, key: &str, number: usize) -> Result<bool> {
        let rows = format!(
            "old.status = 'PUBLISHING' AND new.status = 'PENDING' AND old.aggregate_id = '{key}'
             AND old.payload->>'n'"
        );
        Case::refuse(self, "{t}", &rows, &[&number.to_string()], Refusing::WithAnError).await
    }

    /// `outbox_events` counts the one try that went well.
    fn counts_success(&self) -> bool {
        self.layout == RowLayout::OutboxEvents
    }

    fn marks(&self) -> bool {
        self.is_shared && self.layout == RowLayout::OutboxEvents
    }
}

#[tokio::test]
async fn every_key_arrives_in_its_order_and_once() -> Result<()> {
    on_every_layout(relay_cases::every_key_arrives_in_its_order_and_once).await
}

#[tokio::test]
async fn a_poison_row_is_given_up_and_delays_only_its_own_key() -> Result<()> {
    on_every_layout(relay_cases::a_poison_row_is_given_up_and_delays_only_its_own_key).await
}

#[tokio::test]
async fn an_outage_counts_no_attempt_of_any_row() -> Result<()> {
    on_every_layout(relay_cases::an_outage_counts_no_attempt_of_any_row).await
}

#[tokio::test]
async fn rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next() -> Result<()> {
    on_every_layout(relay_cases::rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next).await
}

#[tokio::test]
async fn a_relay_that_is_shut_down_during_an_outage_leaves_the_rows_unchanged() -> Result<()> {
    on_every_layout(async |case| {
        let layout = case.layout;
        let asked = Arc::new(AtomicU32::new(0));
        let counted = asked.clone();
        let sink = Taker::new(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            Some(Outcome::Down(Failure::new("maintenance")))
        });
        write(&case, 3).await?;
        let relay = relay(case.store().await?, &sink).await?;
        eventually("somebody tried", async || Ok(asked.load(Ordering::Relaxed) > 0)).await?;
        relay.shutdown().await?;
        let waiting = format!(
            "SELECT count(*) FROM {{t}} WHERE lower(status::text) = 'pending' AND {} = 0",
            case.attempts()
        );
        assert_eq!(case.one::<i64>(&waiting).await?, (KEYS * 3) as i64, "{layout:?}");
        Ok(())
    })
    .await
}

/// Beside others too. Where rows are marked before they are published, such a row is never published, and is parked.
#[tokio::test]
async fn a_row_that_cannot_be_updated_is_sent_once_and_delays_no_other() -> Result<()> {
    for (layout, is_shared) in RowLayout::ALL.into_iter().flat_map(|layout| [(layout, false), (layout, true)])
    {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Case::new(layout).await?.shared(is_shared);
        relay_cases::a_row_that_cannot_be_updated_is_sent_once_and_delays_no_other(case).await?;
    }
    Ok(())
}

/// Two ways to say that rows are to be marked.
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
