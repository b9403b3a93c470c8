//! The approach of most outboxes: workers claim rows with SKIP LOCKED and mark them, one batch per transaction.

use super::cost::report;
use super::row_by_row::copy_rows;
use super::{Cost, Fixture, Gauge};
use crate::Error;

impl Fixture {
    /// Publishes events to nowhere with one worker, which marks a batch in the transaction that claimed it.
    pub(crate) async fn skip_locked(&self, events: u64, batch_events: usize) -> Result<Cost, Error> {
        copy_rows(self, events).await?;
        let client = self.connect().await?;
        let statement = client
            .prepare(&self.sql(
                "WITH due AS (
                     SELECT id FROM {schema}.outbox_events
                     WHERE status = 'PENDING'
                     ORDER BY created_at
                     LIMIT $1
                     FOR UPDATE SKIP LOCKED
                 )
                 UPDATE {schema}.outbox_events AS o
                 SET status = 'PUBLISHED', attempt_count = attempt_count + 1, last_attempt_at = now()
                 FROM due
                 WHERE o.id = due.id
                 RETURNING o.*",
            ))
            .await?;
        let gauge = Gauge::start(&self.client, self.schema.as_str()).await?;
        let mut published = 0;
        while published < events {
            let rows = client.query(&statement, &[&i64::try_from(batch_events)?]).await?;
            let payloads: Result<Vec<String>, _> = rows.iter().map(|row| row.try_get("payload")).collect();
            published += payloads?.len() as u64;
        }
        report(&client).await?;
        gauge.stop().await
    }
}
