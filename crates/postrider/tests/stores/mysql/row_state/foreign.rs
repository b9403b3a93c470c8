//! Somebody else's publisher beside ours, with the queries of seed 004.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::layout::RowLayout;
use postrider::store::mysql::MySqlRowStore;
use postrider::{Code, Result};

use super::case::RowCase;
use crate::mysql::log::case::{MariaDb, MySql, Which, failed};
use crate::relay_cases::{eventually, relay};
use crate::taker::Taker;

const GET_EVENTS_TO_PROCESS: &str = "
    SELECT id, aggregate_id, payload
    FROM outbox_events
    WHERE status = 'PENDING' OR (status = 'FAILED' AND attempt_count < 3)
    ORDER BY created_at
    LIMIT 5";
const MARK_EVENT_FOR_PROCESSING: &str = "
    UPDATE outbox_events
    SET status = 'PUBLISHING',
        attempt_count = attempt_count + 1,
        last_attempt_at = CURRENT_TIMESTAMP
    WHERE id = ? AND status IN ('PENDING', 'FAILED')";
const MARK_EVENT_AS_PUBLISHED: &str = "UPDATE outbox_events SET status = 'PUBLISHED' WHERE id = ?";
const MARK_EVENT_AS_FAILED: &str = "UPDATE outbox_events SET status = 'FAILED' WHERE id = ?";
const DELETE_PUBLISHED_EVENTS_OLDER_THAN: &str =
    "DELETE FROM outbox_events WHERE status = 'PUBLISHED' AND created_at < ?";

/// A publisher that knows nothing of Postrider: every second row fails once. Answers what it published.
async fn stranger(mut client: Conn) -> Result<HashMap<String, usize>> {
    let (mut published, mut failures) = (HashMap::new(), HashSet::new());
    loop {
        let rows: Vec<(i64, String, String)> = client.query(GET_EVENTS_TO_PROCESS).await.map_err(failed)?;
        if rows.is_empty() {
            return Ok(published);
        }
        for (id, key, payload) in rows {
            client.exec_drop(MARK_EVENT_FOR_PROCESSING, (id,)).await.map_err(failed)?;
            if client.affected_rows() == 0 {
                continue;
            }
            if id % 2 == 0 && failures.insert(id) {
                client.exec_drop(MARK_EVENT_AS_FAILED, (id,)).await.map_err(failed)?;
                continue;
            }
            *published.entry(format!("{key} {payload}")).or_default() += 1;
            client.exec_drop(MARK_EVENT_AS_PUBLISHED, (id,)).await.map_err(failed)?;
        }
    }
}

async fn beside<W: Which>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let case = RowCase::<W>::new(RowLayout::OutboxEvents).await?;
    for number in 0..60 {
        for key in 0..5 {
            case.run(&case.insert(&format!("key{key}"), number)).await?;
        }
    }
    let mut client = case.config.client().await?;
    client.query_drop(case.sql("USE {schema}")).await.map_err(failed)?;
    let table = case.table.clone().shared(true);
    let store = Arc::new(MySqlRowStore::connect(&case.config, &table).await?);
    let sink = Taker::new(|_, _| None);
    let theirs = tokio::spawn(stranger(client));
    let relay = relay(store, &sink).await?;
    let done = "SELECT COUNT(*) FROM outbox_events WHERE status = 'PUBLISHED'";
    eventually("all rows are published", async || Ok(case.one::<i64>(done).await? == 300)).await?;
    relay.shutdown().await?;
    let theirs = theirs.await.expect("the stranger lives")?;
    let mut all: HashMap<String, usize> = HashMap::new();
    for (key, number) in sink.taken() {
        let key = key.rsplit('/').next().unwrap_or_default();
        *all.entry(format!("{key} {{\"n\": {number}}}")).or_default() += 1;
    }
    for (row, times) in theirs {
        *all.entry(row).or_default() += times;
    }
    assert_eq!(all.len(), 300, "nothing is lost");
    assert!(all.values().all(|times| *times == 1), "every row is published by one of the two");
    let mut client = case.client.lock().await;
    client.exec_drop(DELETE_PUBLISHED_EVENTS_OLDER_THAN, ("2001-01-01",)).await.map_err(failed)?;
    assert_eq!(client.affected_rows(), 0);
    Ok(())
}

#[tokio::test]
async fn the_queries_of_seed_004_run_beside_a_relay_on_mysql() -> Result<()> {
    beside::<MySql>().await
}

#[tokio::test]
async fn the_queries_of_seed_004_run_beside_a_relay_on_mariadb() -> Result<()> {
    beside::<MariaDb>().await
}

async fn at_work<W: Which>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let mut case = RowCase::<W>::new(RowLayout::OutboxEvents).await?;
    case.run(&case.insert("k", 0)).await?;
    case.run("UPDATE outbox_events SET status = 'PUBLISHING', attempt_count = 1, last_attempt_at = NOW()")
        .await?;
    assert_eq!(MySqlRowStore::foreign_claims(&case.config, &case.table).await?, 1);
    let store = case.store().await?;
    store.subscribe("mail", postrider::store::Start::Beginning).await?;
    let duration = std::time::Duration::from_secs(600);
    let lease = postrider::store::LeaseRequest {
        subscription: "mail".to_owned(),
        holder: "test".to_owned(),
        duration,
    };
    let refused = store.acquire(lease).await.unwrap_err();
    assert_eq!(refused.code(), Code::ForeignPublisher);
    // One that was left behind is taken over once that was said and the time is over.
    case.run("UPDATE outbox_events SET last_attempt_at = NOW() - INTERVAL 1 HOUR").await?;
    case.table = case.table.foreign_claim_timeout(Some(std::time::Duration::from_secs(60)));
    let sink = Taker::new(|_, _| None);
    let relay = relay(case.store().await?, &sink).await?;
    sink.wait_for(1).await;
    relay.shutdown().await?;
    assert_eq!(case.one::<String>("SELECT status FROM outbox_events").await?, "PUBLISHED");
    Ok(())
}

#[tokio::test]
async fn a_relay_does_not_start_while_another_publisher_works_on_mysql() -> Result<()> {
    at_work::<MySql>().await
}

#[tokio::test]
async fn a_relay_does_not_start_while_another_publisher_works_on_mariadb() -> Result<()> {
    at_work::<MariaDb>().await
}
