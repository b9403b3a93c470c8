//! Which rows retention deletes in a file, and which it keeps.

use std::time::Duration;

use postrider::Result;
use postrider::relay::{OutboxOptions, Relay, Retention, RetentionScope, Subscription};
use postrider::store::Start;
use postrider_testkit::eventually;

use super::case::Case;
use crate::recording_sink::RecordingSink;
use crate::row_database::RowDatabase;

async fn left(case: &Case, retention: Retention, rows: i64) -> Result<()> {
    let retention = retention.interval(Duration::from_millis(5));
    let subscription = Subscription::new("mail", RecordingSink::new(|_, _| None)).start(Start::Beginning);
    let relay = Relay::builder()
        .outbox_with(case.store()?, [subscription], OutboxOptions::default().retention(retention))
        .spawn()
        .await?;
    let count = "SELECT count(*) FROM outbox_events";
    eventually("all else is deleted", async || Ok(case.one::<i64>(count)? == rows)).await?;
    relay.shutdown().await.map(|_| ())
}

#[tokio::test]
async fn rows_delivered_by_other_publishers_stay_while_those_of_the_relay_are_deleted() -> Result<()> {
    let case = Case::new()?;
    case.run(
        "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
         INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload, status, created_at)
         SELECT 'Order', n, 'order.placed', '{}', 'PUBLISHED', '2025-01-01 00:00:00' FROM n",
    )?;
    (0..10).try_for_each(|number| case.run(&case.insert_sql("k", number)))?;
    left(&case, Retention::keep_for(Duration::ZERO), 1_000).await?;
    left(&case, Retention::keep_for(Duration::from_secs(60)).scope(RetentionScope::All), 0).await
}
