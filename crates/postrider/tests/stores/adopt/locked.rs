//! Rows that are locked by a poller with `FOR UPDATE SKIP LOCKED`, on PostgreSQL.

use postrider::adopt::AdoptionRun;
use postrider::layout::RowLayout;
use postrider::{Code, Result};
use postrider_testkit::eventually;
use tokio_postgres::Client;

use crate::adopt::server::Postgres;
use crate::adopt::stage::*;

/// Waits until another session waits for a lock of this connection.
async fn is_waited_for(client: &Client) {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))";
    let is_waited_for = async || client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) > 0;
    eventually("another session waits for the row", is_waited_for).await;
}

async fn is_left_to_the_poller(layout: RowLayout) -> Result<()> {
    let Some(stage) = Postgres::new(layout).await? else { return Ok(()) };
    write_each(&stage, &stage.to_rows(), events(layout, 0..1)).await?;
    let source = stage.rows().await?;
    let counts = source.counts(NAME).await?;
    let mut copying = AdoptionRun::begin(&*source, stage.to_log(), all(), &counts).await?;
    let poller = stage.another().await?;
    let Words { pending, done, .. } = words(layout);
    let table = stage.sql("{t}");
    let take = format!(
        "BEGIN; UPDATE {table} SET status = '{done}' WHERE id = (SELECT id FROM {table} WHERE status = '{pending}'
         ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED)"
    );
    poller.batch_execute(&take).await.unwrap();
    let publish = async {
        is_waited_for(&poller).await;
        poller.batch_execute("COMMIT").await.unwrap();
    };
    let (batch, ()) = tokio::join!(copying.next_batch(), publish);
    assert_eq!(batch.expect_err("the poller took one of the rows").code(), Code::ForeignPublisher);
    assert_eq!((states(&stage).await?, in_log(&stage).await?), ((4, 1), 0));
    Ok(())
}

#[tokio::test]
async fn a_row_of_event_outbox_that_a_skip_locked_poller_holds_is_not_moved() -> Result<()> {
    is_left_to_the_poller(RowLayout::EventOutbox).await
}

#[tokio::test]
async fn a_row_of_outbox_that_a_skip_locked_poller_holds_is_not_moved() -> Result<()> {
    is_left_to_the_poller(RowLayout::Outbox).await
}
