//! A whole relay on both layouts and both servers.

use std::sync::Arc;

use mysql_async::prelude::Queryable;
use postrider::Result;
use postrider::layout::RowLayout;
use postrider::store::Store;
use postrider_testkit::conformance::rows::Refusing;
use postrider_testkit::conformance::store::lease::a_renewal_does_not_wait_for_a_report;

use super::case::{LAYOUTS, RowCase};
use crate::mysql::log::case::{MariaDb, MySql, Which, failed};
use crate::relay_cases::{self, Table};

impl<W: Which> RowCase<W> {
    fn attempts(&self) -> &'static str {
        if self.layout == RowLayout::EventOutbox { "attempts" } else { "attempt_count" }
    }
}

/// A table of seed 004, or of seed 002.
struct Of<W, const LAYOUT: usize>(RowCase<W>);

impl<W: Which, const LAYOUT: usize> Table for Of<W, LAYOUT> {
    fn counts_success(&self) -> bool {
        LAYOUT == 1
    }

    async fn store(&self) -> Result<Arc<dyn Store>> {
        self.0.store().await
    }

    async fn write(&self, key: &str, number: usize) -> Result<()> {
        self.0.run(&self.0.insert(key, number)).await
    }

    async fn delivered(&self) -> Result<usize> {
        self.0.one("SELECT COUNT(*) FROM {t} WHERE LOWER(status) IN ('sent', 'published')").await
    }

    async fn undelivered(&self) -> Result<Vec<(u32, bool)>> {
        let sql = format!(
            "SELECT CAST({} AS UNSIGNED) * 2 + (LOWER(status) = 'failed') FROM {{t}}
             WHERE LOWER(status) NOT IN ('sent', 'published')",
            self.0.attempts()
        );
        let all: Vec<u32> = self.0.all(&sql).await?;
        Ok(all.into_iter().map(|both| (both / 2, both % 2 == 1)).collect())
    }

    async fn refuse(&self, key: &str, number: usize) -> Result<bool> {
        let about = if LAYOUT == 0 { "entity_pk" } else { "aggregate_id" };
        let rows = format!("OLD.{about} = '{key}' AND JSON_EXTRACT(OLD.payload, '$.n') = {number}");
        self.0.refuse("{t}", &rows, Refusing::WithAnError).await
    }

    async fn refuse_to_give_back(&self, key: &str, number: usize) -> Result<bool> {
        let rows = format!(
            "OLD.status = 'PUBLISHING' AND NEW.status = 'PENDING' AND OLD.aggregate_id = '{key}'
             AND JSON_EXTRACT(OLD.payload, '$.n') = {number}"
        );
        Ok(LAYOUT == 1 && self.0.refuse("{t}", &rows, Refusing::WithAnError).await?)
    }

    async fn tries_max(&self) -> Result<u32> {
        self.0.one(&format!("SELECT MAX({}) FROM {{t}}", self.0.attempts())).await
    }

    async fn dead(&self) -> Result<Vec<String>> {
        self.0.dead().await
    }
}

/// Each test of a relay on one server with one layout.
macro_rules! relays {
    ($name:ident: $which:ty, $layout:literal, $($test:ident)+) => {
        mod $name {
            use super::*;

            $(
                #[tokio::test]
                async fn $test() -> Result<()> {
                    if !RowCase::<$which>::is_available() {
                        return Ok(());
                    }
                    relay_cases::$test(Of::<$which, $layout>(RowCase::new(LAYOUTS[$layout]).await?)).await
                }
            )+
        }
    };
    ($name:ident: $which:ty, $layout:literal) => {
        relays! { $name: $which, $layout,
            every_key_arrives_in_its_order_and_once
            a_poison_row_is_given_up_and_delays_only_its_own_key
            an_outage_counts_no_attempt_of_any_row
            rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next
            a_row_that_cannot_be_updated_is_sent_once_and_delays_no_other
        }
    };
}

relays!(event_outbox_on_mysql: MySql, 0);
relays!(event_outbox_on_mariadb: MariaDb, 0);
relays!(outbox_events_on_mysql: MySql, 1);
relays!(outbox_events_on_mariadb: MariaDb, 1);

async fn reports<W: Which>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let case = RowCase::<W>::new(RowLayout::EventOutbox).await?;
    let store = case.store().await?;
    let mut locking = case.config.client().await?;
    locking.query_drop(case.sql("LOCK TABLES {ledger}.relays WRITE")).await.map_err(failed)?;
    let waiting = "SELECT COUNT(*) > 0 FROM information_schema.processlist
                   WHERE state LIKE 'Waiting for table%' AND info LIKE '%{ledger}%relays%'";
    let report = a_renewal_does_not_wait_for_a_report(store, async || case.one(waiting).await).await?;
    locking.query_drop("UNLOCK TABLES").await.map_err(failed)?;
    report.await.unwrap()
}

#[tokio::test]
async fn no_renewal_waits_for_a_blocked_report() -> Result<()> {
    reports::<MySql>().await?;
    reports::<MariaDb>().await
}

async fn kept_rows<W: Which>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let mut case = RowCase::<W>::new(RowLayout::OutboxEvents).await?;
    case.table = case.table.shared(true);
    let table = Of::<W, 1>(case);
    relay_cases::rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order(table).await
}

#[tokio::test]
async fn rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order() -> Result<()> {
    kept_rows::<MySql>().await?;
    kept_rows::<MariaDb>().await
}
