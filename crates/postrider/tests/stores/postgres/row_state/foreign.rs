//! Another publisher and a relay on one table, with the queries of `outbox_events`.

use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::store::postgres::PostgresRowStore;
use postrider_testkit::eventually;
use tokio_postgres::Client;

use super::case::{Case, failed};
use crate::outbox_events_publisher::{Publisher, neither_publishes_rows_of_the_other};
use crate::recording_sink::RecordingSink;
use crate::relay_cases::{relay, write};

/// The queries of the document of `outbox_events`.
const GET_EVENTS_TO_PROCESS: &str = "
    SELECT *
    FROM outbox_events
    WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 3)
    ORDER BY created_at
    LIMIT $1";
const MARK_EVENT_FOR_PROCESSING: &str = "
    UPDATE outbox_events
    SET status = 'PUBLISHING',
        attempt_count = attempt_count + 1,
        last_attempt_at = NOW()
    WHERE id = $1 AND status IN ('PENDING', 'FAILED')";
const MARK_EVENT_AS_PUBLISHED: &str = "UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = $1";
const MARK_EVENT_AS_FAILED: &str = "UPDATE outbox_events SET status = 'FAILED' WHERE id = $1";
const DELETE_PUBLISHED_EVENTS_OLDER_THAN: &str =
    "DELETE FROM outbox_events WHERE status = 'PUBLISHED' AND created_at < $1::text::timestamptz";

impl Publisher for Client {
    async fn due(&mut self) -> Result<Vec<(i64, String, String)>> {
        let rows = self.query(GET_EVENTS_TO_PROCESS, &[&7i64]).await.map_err(failed)?;
        // The payload is JSON, which this client cannot read as text.
        let payload = "SELECT payload::text FROM outbox_events WHERE id = $1";
        let mut due = Vec::new();
        for row in rows {
            let id: i64 = row.get("id");
            let payload = self.query_one(payload, &[&id]).await.map_err(failed)?.get(0);
            due.push((id, row.get("aggregate_id"), payload));
        }
        Ok(due)
    }

    async fn mark_for_processing(&mut self, id: i64) -> Result<bool> {
        Ok(self.execute(MARK_EVENT_FOR_PROCESSING, &[&id]).await.map_err(failed)? == 1)
    }

    async fn mark_as_published(&mut self, id: i64) -> Result<()> {
        self.execute(MARK_EVENT_AS_PUBLISHED, &[&id]).await.map(|_| ()).map_err(failed)
    }

    async fn mark_as_failed(&mut self, id: i64) -> Result<()> {
        self.execute(MARK_EVENT_AS_FAILED, &[&id]).await.map(|_| ()).map_err(failed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_six_queries_of_outbox_events_run_next_to_a_relay_and_neither_publishes_rows_of_the_other()
-> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::OutboxEvents).await?.shared(true);
    neither_publishes_rows_of_the_other(&case, case.another().await?).await?;
    let day_after = "2999-01-01";
    let deleted =
        case.client.execute(DELETE_PUBLISHED_EVENTS_OLDER_THAN, &[&day_after]).await.map_err(failed)?;
    assert_eq!(deleted, 300);
    Ok(())
}

#[tokio::test]
async fn a_relay_does_not_start_while_another_publisher_works_unless_the_table_is_shared() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::OutboxEvents).await?;
    write(&case, 1).await?;
    case.run("UPDATE outbox_events SET status = 'PUBLISHING', attempt_count = 1, last_attempt_at = now() WHERE id = 1")
        .await?;
    let sink = RecordingSink::new(|_, _| None);
    let refused = relay(case.store().await?, &sink).await?;
    let trouble =
        async || Ok(refused.status()[0].error.clone().is_some_and(|text| text.contains("as PUBLISHING")));
    eventually("the relay reports the other publisher", trouble).await?;
    refused.shutdown().await?;
    assert_eq!(sink.accepted(), [], "nothing was published");

    let shared = case.table.clone().shared(true);
    let store = Arc::new(PostgresRowStore::connect(&case.config, &shared).await?);
    let ours = relay(store, &sink).await?;
    sink.wait_for(4).await;
    ours.shutdown().await?;
    let kept = "SELECT status || attempt_count FROM outbox_events WHERE id = 1";
    assert_eq!(
        case.one::<String>(kept).await?,
        "PUBLISHING1",
        "the row of the other publisher is not modified"
    );

    // An abandoned claim is taken over after the configured time.
    case.run("UPDATE outbox_events SET last_attempt_at = now() - interval '1 hour' WHERE id = 1").await?;
    let patient = shared.foreign_claim_timeout(Some(Duration::from_secs(60)));
    let ours = relay(Arc::new(PostgresRowStore::connect(&case.config, &patient).await?), &sink).await?;
    sink.wait_for(5).await;
    ours.shutdown().await?;
    assert_eq!(case.one::<String>(kept).await?, "PUBLISHED2");
    Ok(())
}
