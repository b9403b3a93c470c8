//! Another program that publishes the rows of `outbox_events` with the queries of `outbox_events`.

use std::collections::{HashMap, HashSet};

use postrider::Result;
use postrider_testkit::eventually;

use crate::recording_sink::RecordingSink;
use crate::relay_cases::{Table, relay, write};

/// The queries of the document, for drivers with `?` parameters.
pub(crate) const GET_EVENTS_TO_PROCESS: &str = "
    SELECT id, aggregate_id, payload
    FROM outbox_events
    WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 3)
    ORDER BY created_at
    LIMIT 5";
pub(crate) const MARK_EVENT_FOR_PROCESSING: &str = "
    UPDATE outbox_events
    SET status = 'PUBLISHING',
        attempt_count = attempt_count + 1,
        last_attempt_at = CURRENT_TIMESTAMP
    WHERE id = ? AND status IN ('PENDING', 'FAILED')";
pub(crate) const MARK_EVENT_AS_PUBLISHED: &str = "UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = ?";
pub(crate) const MARK_EVENT_AS_FAILED: &str = "UPDATE outbox_events SET status = 'FAILED' WHERE id = ?";
pub(crate) const DELETE_PUBLISHED_EVENTS_OLDER_THAN: &str =
    "DELETE FROM outbox_events WHERE status = 'PUBLISHED' AND created_at < ?";

/// A connection that runs the queries.
pub(crate) trait Publisher: Send + 'static {
    /// Id, key and payload of the next rows.
    fn due(&mut self) -> impl Future<Output = Result<Vec<(i64, String, String)>>> + Send;

    /// Returns whether the row was still unclaimed.
    fn mark_for_processing(&mut self, id: i64) -> impl Future<Output = Result<bool>> + Send;

    fn mark_as_published(&mut self, id: i64) -> impl Future<Output = Result<()>> + Send;

    fn mark_as_failed(&mut self, id: i64) -> impl Future<Output = Result<()>> + Send;
}

/// Publishes until no row is due. Every second row fails once. Returns how often each row was published, by key and payload.
async fn publish(mut publisher: impl Publisher) -> Result<HashMap<String, usize>> {
    let (mut published, mut failures) = (HashMap::new(), HashSet::new());
    loop {
        let rows = publisher.due().await?;
        if rows.is_empty() {
            return Ok(published);
        }
        for (id, key, payload) in rows {
            if !publisher.mark_for_processing(id).await? {
                continue;
            }
            // The relay must not take the row while it is published here.
            tokio::task::yield_now().await;
            if id % 2 == 0 && failures.insert(id) {
                publisher.mark_as_failed(id).await?;
                continue;
            }
            *published.entry(format!("{key} {payload}")).or_default() += 1;
            publisher.mark_as_published(id).await?;
        }
    }
}

/// Runs the publisher next to a relay on a shared table.
pub(crate) async fn neither_publishes_rows_of_the_other(
    table: &impl Table,
    publisher: impl Publisher,
) -> Result<()> {
    write(table, 60).await?;
    let theirs = tokio::spawn(publish(publisher));
    let sink = RecordingSink::new(|_, _| None);
    let relay = relay(table.store().await?, &sink).await?;
    eventually("all rows are published", async || Ok(table.delivered().await? == 300)).await?;
    relay.shutdown().await?;
    let mut all = theirs.await.expect("the publisher does not panic")?;
    let foreign: usize = all.values().sum();
    println!("of 300 rows the relay published {}, the other publisher {foreign}", sink.accepted().len());
    for (key, number) in sink.accepted() {
        let key = key.rsplit('/').next().unwrap_or_default();
        *all.entry(format!("{key} {{\"n\": {number}}}")).or_default() += 1;
    }
    assert_eq!(all.len(), 300, "nothing is lost");
    assert!(all.values().all(|times| *times == 1), "every row is published by one of the two");
    Ok(())
}
