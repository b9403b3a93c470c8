//! The common approach: a status column and two updates per event.

use super::cost::report;
use super::{Cost, Fixture, Gauge};
use crate::Error;

impl Fixture {
    /// Publishes events to nowhere and marks each before and after, with the statements of `outbox_events`.
    pub(crate) async fn row_by_row(&self, events: u64, page_events: usize) -> Result<Cost, Error> {
        copy_rows(self, events).await?;
        let client = self.connect().await?;
        let due = client
            .prepare(&self.sql(
                "SELECT *
                 FROM {schema}.outbox_events
                 WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 10)
                 ORDER BY created_at
                 LIMIT $1",
            ))
            .await?;
        let claim = client
            .prepare(&self.sql(
                "UPDATE {schema}.outbox_events
                 SET status = 'PUBLISHING', attempt_count = attempt_count + 1, last_attempt_at = now()
                 WHERE id = $1 AND status IN ('PENDING', 'FAILED')",
            ))
            .await?;
        let mark = self.sql("UPDATE {schema}.outbox_events SET status = 'PUBLISHED' WHERE id = $1");
        let mark = client.prepare(&mark).await?;
        let gauge = Gauge::start(&self.client, self.schema.as_str()).await?;
        let mut published = 0;
        while published < events {
            for row in client.query(&due, &[&i64::try_from(page_events)?]).await? {
                let (id, _payload): (i64, String) = (row.try_get("id")?, row.try_get("payload")?);
                client.execute(&claim, &[&id]).await?;
                client.execute(&mark, &[&id]).await?;
                published += 1;
            }
        }
        report(&client).await?;
        gauge.stop().await
    }
}

/// The table `outbox_events` with copies of the fixture's first rows.
pub(super) async fn copy_rows(fixture: &Fixture, events: u64) -> Result<(), Error> {
    let make = "DROP TABLE IF EXISTS {schema}.outbox_events;
        CREATE TABLE {schema}.outbox_events (
            id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            aggregate_type VARCHAR(255) NOT NULL,
            aggregate_id VARCHAR(255) NOT NULL,
            event_type VARCHAR(255) NOT NULL,
            payload TEXT NOT NULL,
            status VARCHAR(20) NOT NULL DEFAULT 'PENDING',
            created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
            last_attempt_at TIMESTAMP,
            attempt_count INTEGER NOT NULL DEFAULT 0
        );
        CREATE INDEX idx_outbox_events_status ON {schema}.outbox_events (status, created_at)";
    fixture.client.batch_execute(&fixture.sql(make)).await?;
    let copy = "INSERT INTO {schema}.outbox_events (aggregate_type, aggregate_id, event_type, payload)
                SELECT aggregate_type, aggregate_id, type, convert_from(payload, 'UTF8')
                FROM {schema}.events
                ORDER BY position
                LIMIT $1";
    fixture.client.execute(&fixture.sql(copy), &[&i64::try_from(events)?]).await?;
    fixture.client.batch_execute(&fixture.sql("VACUUM ANALYZE {schema}.outbox_events")).await?;
    fixture.client.batch_execute("CHECKPOINT").await?;
    Ok(())
}
