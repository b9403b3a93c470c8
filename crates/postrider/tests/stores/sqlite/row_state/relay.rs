//! A whole relay on the table.

use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider::store::Store;
use postrider_testkit::conformance::rows::Refusing;

use super::case::{Case, failed};
use crate::relay_cases::{self, Table};

impl Table for Case {
    fn counts_success(&self) -> bool {
        true
    }

    async fn store(&self) -> Result<Arc<dyn Store>> {
        Case::store(self)
    }

    async fn write(&self, key: &str, number: usize) -> Result<()> {
        self.run(&Case::insert(key, number))
    }

    async fn delivered(&self) -> Result<usize> {
        self.one::<i64>("SELECT count(*) FROM outbox_events WHERE status = 'PUBLISHED'")
            .map(|count| count as usize)
    }

    async fn undelivered(&self) -> Result<Vec<(u32, bool)>> {
        let connection = self.connect()?;
        let sql = "SELECT attempt_count, status = 'FAILED' FROM outbox_events WHERE status <> 'PUBLISHED'";
        let mut statement = connection.prepare(sql).map_err(failed)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    async fn refuse(&self, key: &str, number: usize) -> Result<bool> {
        let rows = format!("old.aggregate_id = '{key}' AND old.payload = '{{\"n\": {number}}}'");
        Case::refuse(self, "outbox_events", &rows, Refusing::WithAnError)
    }

    async fn refuse_to_give_back(&self, key: &str, number: usize) -> Result<bool> {
        let rows = format!(
            "old.status = 'PUBLISHING' AND new.status = 'PENDING' AND old.aggregate_id = '{key}'
             AND old.payload = '{{\"n\": {number}}}'"
        );
        Case::refuse(self, "outbox_events", &rows, Refusing::WithAnError)
    }

    async fn dead(&self) -> Result<Vec<String>> {
        Case::dead(self)
    }

    async fn tries_max(&self) -> Result<u32> {
        self.one("SELECT max(attempt_count) FROM outbox_events")
    }
}

macro_rules! relays {
    ($($test:ident)+) => { $(
        #[tokio::test]
        async fn $test() -> Result<()> {
            relay_cases::$test(Case::new()?).await
        }
    )+ };
}

relays! {
    every_key_arrives_in_its_order_and_once
    a_poison_row_is_given_up_and_delays_only_its_own_key
    an_outage_counts_no_attempt_of_any_row
    rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next
    a_row_that_cannot_be_updated_is_sent_once_and_delays_no_other
}

/// Two ways to say that rows are to be marked.
#[tokio::test]
async fn rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order() -> Result<()> {
    for timeout in [None, Some(Duration::from_secs(3_600))] {
        let mut case = Case::new()?;
        case.table = case.table.shared(timeout.is_none()).foreign_claim_timeout(timeout);
        relay_cases::rows_of_a_dead_relay_that_cannot_be_released_are_delivered_in_order(case).await?;
    }
    Ok(())
}
