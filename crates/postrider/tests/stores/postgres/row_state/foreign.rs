//! Other people's publishers beside ours, each with the protocol of its seed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use postrider::Result;
use postrider::layout::RowLayout;
use postrider::store::postgres::PostgresRowStore;
use tokio_postgres::Client;

use super::case::{Case, failed};
use crate::relay_cases::{Table as _, eventually, relay, write};
use crate::taker::Taker;

/// The queries of seed 004, as its document has them.
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

/// A publisher that knows nothing of Postrider: every second row fails once. Answers what it published.
async fn publish_as_seed_004(client: Client) -> Result<Vec<i64>> {
    let (mut published, mut failed_once) = (Vec::new(), HashMap::new());
    loop {
        let rows = client.query(GET_EVENTS_TO_PROCESS, &[&7i64]).await.map_err(failed)?;
        if rows.is_empty() {
            return Ok(published);
        }
        for row in rows {
            let id: i64 = row.get("id");
            if client.execute(MARK_EVENT_FOR_PROCESSING, &[&id]).await.map_err(failed)? != 1 {
                continue;
            }
            // Somebody else's row must not become ours while we publish it.
            tokio::task::yield_now().await;
            if id % 2 == 0 && failed_once.insert(id, ()).is_none() {
                client.execute(MARK_EVENT_AS_FAILED, &[&id]).await.map_err(failed)?;
            } else {
                client.execute(MARK_EVENT_AS_PUBLISHED, &[&id]).await.map_err(failed)?;
                published.push(id);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_six_queries_of_seed_004_run_beside_us_and_nobody_publishes_a_row_of_the_other() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let mut case = Case::new(RowLayout::OutboxEvents).await?;
    case.table = case.table.clone().shared(true);
    write(&case, 100).await?;
    let theirs = tokio::spawn(publish_as_seed_004(case.another().await?));
    let sink = Taker::new(|_, _| None);
    let ours = relay(case.store().await?, &sink).await?;
    let published = theirs.await.unwrap()?;
    eventually("all rows are delivered", async || Ok(case.delivered().await? == 500)).await?;
    ours.shutdown().await?;
    let (taken, foreign) = (sink.taken().len(), published.len());
    println!("of 500 rows we published {taken}, the other publisher {foreign}");
    assert_eq!(taken + foreign, 500, "each by one of the two, none by both, none lost");
    let day_after = "2999-01-01";
    let deleted =
        case.client.execute(DELETE_PUBLISHED_EVENTS_OLDER_THAN, &[&day_after]).await.map_err(failed)?;
    assert_eq!(deleted, 500);
    Ok(())
}

#[tokio::test]
async fn a_stranger_at_work_keeps_us_from_starting_unless_the_table_is_shared() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::OutboxEvents).await?;
    write(&case, 1).await?;
    case.run("UPDATE outbox_events SET status = 'PUBLISHING', attempt_count = 1, last_attempt_at = now() WHERE id = 1")
        .await?;
    let sink = Taker::new(|_, _| None);
    let refused = relay(case.store().await?, &sink).await?;
    let trouble =
        async || Ok(refused.status()[0].error.clone().is_some_and(|text| text.contains("as PUBLISHING")));
    eventually("it says so", trouble).await?;
    refused.shutdown().await?;
    assert_eq!(sink.taken(), [], "nothing was published");

    let shared = case.table.clone().shared(true);
    let store = Arc::new(PostgresRowStore::connect(&case.config, &shared).await?);
    let ours = relay(store, &sink).await?;
    sink.wait_for(4).await;
    ours.shutdown().await?;
    let kept = "SELECT status || attempt_count FROM outbox_events WHERE id = 1";
    assert_eq!(case.one::<String>(kept).await?, "PUBLISHING1", "their row is theirs");

    // Until it is said after how long they must be dead.
    case.run("UPDATE outbox_events SET last_attempt_at = now() - interval '1 hour' WHERE id = 1").await?;
    let patient = shared.foreign_claim_timeout(Some(Duration::from_secs(60)));
    let ours = relay(Arc::new(PostgresRowStore::connect(&case.config, &patient).await?), &sink).await?;
    sink.wait_for(5).await;
    ours.shutdown().await?;
    assert_eq!(case.one::<String>(kept).await?, "PUBLISHED2");
    Ok(())
}
