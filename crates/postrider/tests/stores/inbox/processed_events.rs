//! `processed_events` of layout `outbox` as an inbox, with the key of the layout and with a better one.

use std::sync::Arc;
use std::time::Duration;

use postrider::inbox::{Inbox, Received};
use postrider::{Code, Result};
use postrider_testkit::eventually;
use tokio::sync::Barrier;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::failed;
use crate::postgres::log::case::Case;

/// The table of the layout's document.
const AS_IT_IS: &str = include_str!("../../../src/store/postgres/row_state/processed_events.sql");

async fn case() -> Result<Option<(Case, Inbox)>> {
    if !Case::is_available() {
        return Ok(None);
    }
    let case = Case::without_tables().await?;
    case.run(&format!(
        "CREATE SCHEMA {{schema}}; SET search_path = {{schema}}; {}",
        AS_IT_IS.replace("{processed}", "{schema}.processed_events")
    ))
    .await?;
    let inbox = Inbox::processed_events(case.schema.clone());
    Ok(Some((case, inbox)))
}

async fn receive(client: &Client, inbox: &Inbox, group: &str, id: Uuid) -> Result<Received> {
    client.batch_execute("BEGIN").await.map_err(failed)?;
    let received = inbox.receive(client, group, id).await;
    let end = if received.is_ok() { "COMMIT" } else { "ROLLBACK" };
    client.batch_execute(end).await.map_err(failed)?;
    received
}

/// Waits until a session waits for the transaction of another one.
async fn waits(case: &Case) -> Result<()> {
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid' AND query LIKE '%{schema}%'";
    // On its own connection: within a transaction, every read of `pg_stat_activity` returns the first one's result.
    let observer = case.another().await?;
    let count = async || observer.query_one(&case.sql(waiting), &[]).await.map_err(failed);
    eventually("the second delivery waits", async || Ok(count().await?.get::<_, i64>(0) > 0)).await
}

#[tokio::test]
async fn processed_events_as_it_is_serves_one_group_and_refuses_a_second() -> Result<()> {
    let Some((case, inbox)) = case().await? else { return Ok(()) };
    let id = Uuid::now_v7();
    assert_eq!(receive(&case.client, &inbox, "mail", id).await?, Received::First);
    assert_eq!(receive(&case.client, &inbox, "mail", id).await?, Received::Duplicate);
    // The same event, and an event that the first group has not seen.
    for id in [id, Uuid::now_v7()] {
        for second in ["billing", "zebra"] {
            let refused = receive(&case.client, &inbox, second, id).await.unwrap_err();
            assert_eq!(refused.code(), Code::InboxUnfit, "{second}: {refused}");
            assert!(refused.report().contains("(consumer_group, event_id)"), "{}", refused.report());
        }
    }
    assert_eq!(case.one::<i64>("SELECT count(*) FROM {schema}.processed_events").await?, 1);
    assert_eq!(receive(&case.client, &inbox, "mail", Uuid::now_v7()).await?, Received::First);
    Ok(())
}

#[tokio::test]
async fn a_second_group_that_waits_for_the_first_is_refused_and_gets_no_duplicate() -> Result<()> {
    let Some((case, inbox)) = case().await? else { return Ok(()) };
    let (other, id) = (case.another().await?, Uuid::now_v7());
    case.client.batch_execute("BEGIN").await.map_err(failed)?;
    assert_eq!(inbox.receive(&case.client, "mail", id).await?, Received::First);
    let waiting = receive(&other, &inbox, "billing", id);
    let (second, committed) = tokio::join!(waiting, async {
        waits(&case).await?;
        case.client.batch_execute("COMMIT").await.map_err(failed)
    });
    committed?;
    assert_eq!(second.unwrap_err().code(), Code::InboxUnfit);
    Ok(())
}

#[tokio::test]
async fn with_the_group_in_its_key_processed_events_serves_every_group() -> Result<()> {
    let Some((case, inbox)) = case().await? else { return Ok(()) };
    case.run(
        "ALTER TABLE {schema}.processed_events DROP CONSTRAINT processed_events_pkey;
         ALTER TABLE {schema}.processed_events ADD PRIMARY KEY (consumer_group, event_id)",
    )
    .await?;
    let id = Uuid::now_v7();
    for group in ["mail", "billing"] {
        assert_eq!(receive(&case.client, &inbox, group, id).await?, Received::First, "{group}");
        assert_eq!(receive(&case.client, &inbox, group, id).await?, Received::Duplicate, "{group}");
    }
    Ok(())
}

#[tokio::test]
async fn without_a_unique_key_processed_events_is_refused() -> Result<()> {
    let Some((case, inbox)) = case().await? else { return Ok(()) };
    case.run("ALTER TABLE {schema}.processed_events DROP CONSTRAINT processed_events_pkey").await?;
    let refused = receive(&case.client, &inbox, "mail", Uuid::now_v7()).await.unwrap_err();
    assert_eq!(refused.code(), Code::InboxUnfit, "{refused}");
    case.run("DROP TABLE {schema}.processed_events").await?;
    let missing = receive(&case.client, &inbox, "mail", Uuid::now_v7()).await.unwrap_err();
    assert_eq!(missing.code(), Code::SchemaMissing, "{missing}");
    Ok(())
}

#[tokio::test]
async fn rows_of_processed_events_expire_after_the_retention_and_never_before_a_day() -> Result<()> {
    let Some((case, inbox)) = case().await? else { return Ok(()) };
    let hours = "SELECT round(extract(epoch FROM max(expires_at - processed_at)) / 3600)::bigint
                 FROM {schema}.processed_events";
    for (retention, expected) in [(1, 24), (48, 48)] {
        let inbox = inbox.clone().retention(Duration::from_secs(retention * 3_600));
        _ = receive(&case.client, &inbox, "mail", Uuid::now_v7()).await?;
        assert_eq!(case.one::<i64>(hours).await?, expected);
    }
    case.run("UPDATE {schema}.processed_events SET expires_at = now() - interval '1 hour'").await?;
    _ = receive(&case.client, &inbox, "mail", Uuid::now_v7()).await?;
    assert_eq!(inbox.delete_expired(&case.client, 10).await?, 2);
    assert_eq!(case.one::<i64>("SELECT count(*) FROM {schema}.processed_events").await?, 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_deliveries_to_processed_events_are_received_once() -> Result<()> {
    let Some((case, inbox)) = case().await? else { return Ok(()) };
    let ids: Arc<Vec<Uuid>> = Arc::new((0..50).map(|_| Uuid::now_v7()).collect());
    let start = Arc::new(Barrier::new(8));
    let mut consumers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (client, inbox) = (case.another().await?, inbox.clone());
        let (ids, start) = (ids.clone(), start.clone());
        consumers.spawn(async move {
            let mut first = 0;
            for id in ids.iter() {
                start.wait().await;
                first += u32::from(receive(&client, &inbox, "mail", *id).await.unwrap() == Received::First);
            }
            first
        });
    }
    assert_eq!(consumers.join_all().await.into_iter().sum::<u32>(), 50);
    Ok(())
}
