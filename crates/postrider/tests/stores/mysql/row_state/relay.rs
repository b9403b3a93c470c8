//! A relay on both layouts and both servers.

use mysql_async::prelude::Queryable;
use postrider::Result;
use postrider::layout::RowLayout;
use postrider_testkit::conformance::store::lease::a_renewal_does_not_wait_for_a_report;

use super::case::RowCase;
use crate::mysql::log::case::{MariaDb, MySql, ServerKind, failed};
use crate::relay_cases::{self, relay_tests};
use crate::row_database::RowDatabase;
use crate::test_layouts::on_layouts;

async fn table<W: ServerKind>(layout: RowLayout) -> Result<Option<RowCase<W>>> {
    if !RowCase::<W>::is_available() {
        return Ok(None);
    }
    RowCase::new(layout).await.map(Some)
}

macro_rules! relay_cases {
    ($($layout:ident = $index:literal, $variant:ident;)+) => {
        mod on_mysql {
            use super::*;

            relay_tests! { $($layout: table::<MySql>(RowLayout::$variant);)+ }
        }

        mod on_mariadb {
            use super::*;

            relay_tests! { $($layout: table::<MariaDb>(RowLayout::$variant);)+ }
        }
    };
}

on_layouts!(mysql, relay_cases);

async fn reports<W: ServerKind>() -> Result<()> {
    let Some(case) = table::<W>(RowLayout::EventOutbox).await? else { return Ok(()) };
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

async fn kept_rows<W: ServerKind>() -> Result<()> {
    let Some(case) = table::<W>(RowLayout::OutboxEvents).await? else { return Ok(()) };
    let case = case.with_sharing(true);
    relay_cases::rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order(case).await
}

#[tokio::test]
async fn rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order() -> Result<()> {
    kept_rows::<MySql>().await?;
    kept_rows::<MariaDb>().await
}
