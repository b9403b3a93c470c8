//! The inbox on PostgreSQL, with tokio-postgres.

use std::sync::Arc;

use postrider::inbox::{Inbox, Once, Received};
use postrider::store::Store;
use postrider::{Error, Result};
use tokio_postgres::Client;
use uuid::Uuid;

use super::case::{Consumer, Delivery, End, InboxCase, in_schema};
use crate::failed;
use crate::postgres::log::case::Case;

super::cases::inbox_tests!(PostgresInbox);

pub(crate) struct PostgresInbox(pub(crate) Case);

pub(crate) struct PostgresConsumer {
    url: String,
    schema: String,
    client: Client,
}

impl InboxCase for PostgresInbox {
    type Consumer = PostgresConsumer;

    const NAME: &'static str = "PostgreSQL";
    const WAITING: Option<&'static str> = Some(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'transactionid' AND query LIKE '%{schema}%'",
    );

    async fn new() -> Option<Self> {
        if !Case::is_available() {
            return None;
        }
        let case = Case::new().await.unwrap();
        case.run(
            "CREATE TABLE {schema}.effects (consumer_group text NOT NULL, event_id text NOT NULL);
             GRANT {schema}_inbox TO case_writer;
             GRANT SELECT, INSERT ON {schema}.effects TO {schema}_inbox",
        )
        .await
        .unwrap();
        Some(Self(case))
    }

    fn inbox(&self) -> Inbox {
        Inbox::new().schema(self.0.schema.clone())
    }

    async fn consumer(&self) -> PostgresConsumer {
        let url = crate::postgres::log::case::url_of("case_writer").unwrap();
        let client = crate::postgres::log::case::connect(&url).await.unwrap();
        PostgresConsumer { url, schema: self.0.schema.as_str().to_owned(), client }
    }

    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.0.store().await.unwrap())
    }

    async fn run(&self, sql: &str) {
        self.0.run(&in_schema(sql)).await.unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        self.0.one(&in_schema(sql)).await.unwrap()
    }

    fn days_from_now(days: i32) -> String {
        format!("(now() + interval '{days} days')")
    }

    fn id(id: Uuid) -> String {
        format!("'{id}'")
    }
}

impl Consumer for PostgresConsumer {
    async fn begin(&mut self) -> Result<()> {
        self.client.batch_execute("BEGIN").await.map_err(failed)
    }

    async fn end(&mut self, is_committed: bool) -> Result<()> {
        let end = if is_committed { "COMMIT" } else { "ROLLBACK" };
        self.client.batch_execute(end).await.map_err(failed)
    }

    async fn reconnect(&mut self) -> Result<()> {
        self.client = crate::postgres::log::case::connect(&self.url).await?;
        Ok(())
    }

    async fn receive(&mut self, inbox: &Inbox, Delivery { group, id, .. }: Delivery) -> Result<Received> {
        inbox.receive(&self.client, group, id).await
    }

    async fn once(&mut self, inbox: &Inbox, delivery: Delivery, end: End) -> Result<Once<()>> {
        let (schema, Delivery { group, id, .. }) = (self.schema.as_str(), delivery);
        let effect = async |client: &Client| effect(client, schema, delivery, end).await;
        inbox.once(&self.client, group, id, effect).await
    }

    async fn effect(&mut self, delivery: Delivery, end: End) -> Result<()> {
        effect(&self.client, &self.schema, delivery, end).await
    }

    async fn has_row(&mut self, Delivery { group, id, .. }: Delivery) -> Result<bool> {
        let sql = format!("SELECT 1 FROM {}.inbox WHERE consumer_group = $1 AND event_id = $2", self.schema);
        Ok(self.client.query_opt(&sql, &[&group, &id]).await.map_err(failed)?.is_some())
    }

    async fn delete_expired(&mut self, inbox: &Inbox, rows_max: usize) -> Result<u64> {
        let tx = self.client.transaction().await.map_err(failed)?;
        let deleted = inbox.delete_expired(&tx, rows_max).await?;
        tx.commit().await.map_err(failed).map(|()| deleted)
    }
}

async fn effect(client: &Client, schema: &str, Delivery { group, id, .. }: Delivery, end: End) -> Result<()> {
    let insert = format!("INSERT INTO {schema}.effects (consumer_group, event_id) VALUES ($1, $2)");
    client.execute(&insert, &[&group, &id.to_string()]).await.map_err(failed)?;
    end.of_effect()
}

/// At a stricter isolation level, the second consumer gets an error.
#[tokio::test]
async fn at_repeatable_read_the_second_of_two_deliveries_gets_an_error_to_retry() -> Result<()> {
    let Some(case) = PostgresInbox::new().await else { return Ok(()) };
    let (one, two, id) = (case.0.another().await?, case.0.another().await?, Uuid::now_v7());
    let inbox = case.inbox();
    one.batch_execute("BEGIN").await.map_err(failed)?;
    _ = inbox.receive(&one, "mail", id).await?;
    two.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.map_err(failed)?;
    let (received, committed) =
        tokio::join!(inbox.receive(&two, "mail", id), async { one.batch_execute("COMMIT").await });
    committed.map_err(failed)?;
    let error: Error = received.unwrap_err();
    assert_eq!(error.code(), postrider::Code::StoreBusy, "{error}");
    assert!(error.hint().contains("retry the whole transaction"), "{}", error.report());
    two.batch_execute("ROLLBACK").await.map_err(failed)?;
    assert_eq!(inbox.receive(&two, "mail", id).await?, Received::Duplicate);
    Ok(())
}

#[tokio::test]
async fn the_role_of_a_consumer_can_receive_and_nothing_else() -> Result<()> {
    let Some(case) = PostgresInbox::new().await else { return Ok(()) };
    case.0.run("REVOKE {schema}_writer FROM case_writer").await?;
    let consumer = case.consumer().await;
    let inbox = case.inbox();
    assert_eq!(inbox.receive(&consumer.client, "mail", Uuid::now_v7()).await?, Received::First);
    assert_eq!(inbox.delete_expired(&consumer.client, 10).await?, 0);
    for refused in
        ["UPDATE {s}.inbox SET expires_at = now()", "SELECT 1 FROM {s}.events", "TRUNCATE {s}.inbox"]
    {
        let sql = refused.replace("{s}", &consumer.schema);
        assert!(consumer.client.batch_execute(&sql).await.is_err(), "{refused}");
    }
    Ok(())
}
