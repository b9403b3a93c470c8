//! Another publisher and a relay on one table, with the queries of `outbox_events`.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::layout::RowLayout;
use postrider::store::mysql::MySqlRowStore;
use postrider::{Code, Result};

use super::case::RowCase;
use crate::mysql::log::case::{MariaDb, MySql, ServerKind, failed};
use crate::outbox_events_publisher::{
    DELETE_PUBLISHED_EVENTS_OLDER_THAN, GET_EVENTS_TO_PROCESS, MARK_EVENT_AS_FAILED, MARK_EVENT_AS_PUBLISHED,
    MARK_EVENT_FOR_PROCESSING, Publisher, neither_publishes_rows_of_the_other,
};
use crate::recording_sink::RecordingSink;
use crate::relay_cases::relay;
use crate::row_database::{RowDatabase, lease};

impl Publisher for Conn {
    async fn due(&mut self) -> Result<Vec<(i64, String, String)>> {
        self.query(GET_EVENTS_TO_PROCESS).await.map_err(failed)
    }

    async fn mark_for_processing(&mut self, id: i64) -> Result<bool> {
        self.exec_drop(MARK_EVENT_FOR_PROCESSING, (id,)).await.map_err(failed)?;
        Ok(self.affected_rows() == 1)
    }

    async fn mark_as_published(&mut self, id: i64) -> Result<()> {
        self.exec_drop(MARK_EVENT_AS_PUBLISHED, (id,)).await.map_err(failed)
    }

    async fn mark_as_failed(&mut self, id: i64) -> Result<()> {
        self.exec_drop(MARK_EVENT_AS_FAILED, (id,)).await.map_err(failed)
    }
}

async fn two_publishers<W: ServerKind>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let case = RowCase::<W>::new(RowLayout::OutboxEvents).await?.with_sharing(true);
    let mut client = case.config.client().await?;
    client.query_drop(case.sql("USE {schema}")).await.map_err(failed)?;
    neither_publishes_rows_of_the_other(&case, client).await?;
    let mut client = case.client.lock().await;
    client.exec_drop(DELETE_PUBLISHED_EVENTS_OLDER_THAN, ("2001-01-01",)).await.map_err(failed)?;
    assert_eq!(client.affected_rows(), 0);
    Ok(())
}

#[tokio::test]
async fn the_queries_of_outbox_events_run_next_to_a_relay_on_mysql() -> Result<()> {
    two_publishers::<MySql>().await
}

#[tokio::test]
async fn the_queries_of_outbox_events_run_next_to_a_relay_on_mariadb() -> Result<()> {
    two_publishers::<MariaDb>().await
}

async fn at_work<W: ServerKind>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let mut case = RowCase::<W>::new(RowLayout::OutboxEvents).await?;
    case.run(&case.insert_sql("k", 0)).await?;
    case.run("UPDATE outbox_events SET status = 'PUBLISHING', attempt_count = 1, last_attempt_at = NOW()")
        .await?;
    assert_eq!(MySqlRowStore::foreign_claims(&case.config, &case.table).await?, 1);
    let store = case.store().await?;
    store.subscribe("mail", postrider::store::Start::Beginning).await?;
    let lease = lease(Duration::from_secs(600));
    let refused = store.acquire(lease).await.unwrap_err();
    assert_eq!(refused.code(), Code::ForeignPublisher);
    // An abandoned claim is taken over after the configured time.
    case.run("UPDATE outbox_events SET last_attempt_at = NOW() - INTERVAL 1 HOUR").await?;
    case.table = case.table.foreign_claim_timeout(Some(Duration::from_secs(60)));
    let sink = RecordingSink::new(|_, _| None);
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
