//! The common approach: a status column and two updates per event.

use mysql_async::prelude::Queryable;

use super::{Cost, Fixture, Gauge};
use crate::Error;

impl Fixture {
    /// Publishes events to nowhere and marks each before and after, with the statements of `outbox_events`.
    pub(crate) async fn row_by_row(&self, events: u64, page_events: usize) -> Result<Cost, Error> {
        self.copy_rows(events).await?;
        let mut connection = self.connect().await?;
        let due = self.sql(
            "SELECT id, payload
             FROM {schema}.outbox_events
             WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 10)
             ORDER BY created_at
             LIMIT ?",
        );
        let claim = self.sql(
            "UPDATE {schema}.outbox_events
             SET status = 'PUBLISHING', attempt_count = attempt_count + 1, last_attempt_at = now()
             WHERE id = ? AND status IN ('PENDING', 'FAILED')",
        );
        let mark = self.sql("UPDATE {schema}.outbox_events SET status = 'PUBLISHED' WHERE id = ?");
        let (due, claim, mark) =
            (connection.prep(due).await?, connection.prep(claim).await?, connection.prep(mark).await?);
        let gauge = Gauge::start(self.connect().await?).await?;
        let mut published = 0;
        while published < events {
            let rows: Vec<(i64, String)> = connection.exec(&due, (page_events,)).await?;
            for (id, _payload) in rows {
                connection.exec_drop(&claim, (id,)).await?;
                connection.exec_drop(&mark, (id,)).await?;
                published += 1;
            }
        }
        let cost = gauge.stop().await?;
        connection.disconnect().await?;
        Ok(cost)
    }

    /// The table `outbox_events` with copies of the fixture's first rows.
    async fn copy_rows(&self, events: u64) -> Result<(), Error> {
        let mut connection = self.connect().await?;
        for statement in [
            "DROP TABLE IF EXISTS {schema}.outbox_events",
            "CREATE TABLE {schema}.outbox_events (
                 id BIGINT AUTO_INCREMENT PRIMARY KEY,
                 aggregate_type VARCHAR(255) NOT NULL,
                 aggregate_id VARCHAR(255) NOT NULL,
                 event_type VARCHAR(255) NOT NULL,
                 payload TEXT NOT NULL,
                 status VARCHAR(20) NOT NULL DEFAULT 'PENDING',
                 created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
                 last_attempt_at TIMESTAMP NULL,
                 attempt_count INTEGER NOT NULL DEFAULT 0,
                 INDEX idx_outbox_events_status (status, created_at)
             ) ENGINE = InnoDB CHARACTER SET utf8mb4",
        ] {
            connection.query_drop(self.sql(statement)).await?;
        }
        let copy = "INSERT INTO {schema}.outbox_events (aggregate_type, aggregate_id, event_type, payload)
                    SELECT aggregate_type, aggregate_id, type, CONVERT(payload USING utf8mb4)
                    FROM {schema}.events
                    ORDER BY position
                    LIMIT ?";
        connection.exec_drop(self.sql(copy), (events,)).await?;
        connection.query_drop(self.sql("ANALYZE TABLE {schema}.outbox_events")).await?;
        Ok(connection.disconnect().await?)
    }
}
