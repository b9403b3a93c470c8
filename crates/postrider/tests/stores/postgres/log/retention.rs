//! A delivered outbox shrinks while a relay runs.

use std::sync::Arc;
use std::time::Duration;

use postrider::relay::{OutboxOptions, Relay, Retention, Subscription};
use postrider::sink::{Failure, Message, Outcome, Receipt, Sink};
use postrider::store::{Purge, Start, Store};
use postrider::{BoxFuture, Code, Position, Result};
use postrider_testkit::eventually;

use super::case::{Case, case, failed};

/// Acknowledges every event except those named bad.
struct Particular;

impl Sink for Particular {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        let outcome = |message: &Message| match message.event.event_type.as_str() {
            "bad" => Outcome::Rejected(Failure::new("bad")),
            _ => Outcome::Acknowledged(Receipt::default()),
        };
        let outcomes = batch.iter().map(outcome).collect();
        Box::pin(std::future::ready(outcomes))
    }
}

fn soon() -> Retention {
    Retention::keep_for(Duration::from_secs(60)).interval(Duration::from_millis(20)).batch_events_max(100)
}

async fn write_old(case: &Case) -> Result<()> {
    case.run(
        "INSERT INTO {schema}.events (type, payload, time)
              SELECT CASE n WHEN 7 THEN 'bad' ELSE 'good' END, '', now() - interval '1 hour'
              FROM generate_series(1, 500) AS n",
    )
    .await
}

async fn left(case: &Case) -> Result<Vec<i64>> {
    case.one("SELECT coalesce(array_agg(position ORDER BY position), '{}') FROM {schema}.events").await
}

async fn wait_until(case: &Case, sql: &str, expected: i64) -> Result<()> {
    eventually(&format!("{sql} is {expected}"), async || Ok(case.one::<i64>(sql).await? == expected)).await
}

const COUNT: &str = "SELECT count(*) FROM {schema}.events";

case! {
    async fn a_delivered_outbox_shrinks_to_its_dead_events_and_the_last_event_seen(case) {
        write_old(&case).await?;
        let store = Arc::new(case.store().await?);
        let subscription = Subscription::new("audit", Particular).start(Start::Beginning);
        let relay = Relay::builder().outbox_with(store, [subscription], OutboxOptions::default().retention(soon())).spawn().await?;
        wait_until(&case, COUNT, 2).await?;
        relay.shutdown().await?;
        assert_eq!(left(&case).await?, [7, 500]);
    }
}

case! {
    async fn a_slow_subscription_holds_retention_back_and_is_named(case) {
        write_old(&case).await?;
        let store: Arc<dyn Store> = Arc::new(case.store().await?);
        store.subscribe("slow", Start::Position(Position::new(101))).await?;
        let subscription = Subscription::new("audit", Particular).start(Start::Beginning);
        let relay = Relay::builder().outbox_with(store.clone(), [subscription], OutboxOptions::default().retention(soon())).spawn().await?;
        // 1 to 100 except the dead one, and the mark of the slow one.
        wait_until(&case, COUNT, 402).await?;
        let held = store.overview(0).await?.held_back(Duration::from_secs(60));
        assert_eq!(held.map(|held| (held.subscription, held.floor.get())), Some(("slow".to_owned(), 100)));
        // Not `Start::Now`: until the subscription is served, the deleted events would count as not delivered.
        store.accept_history("slow", Start::Position(Position::new(501))).await?;
        wait_until(&case, COUNT, 2).await?;
        assert_eq!(store.overview(0).await?.held_back(Duration::from_secs(60)), None);
        relay.shutdown().await?;
    }
}

case! {
    async fn a_connection_cut_during_deletion_loses_nothing_and_deletion_continues(case) {
        write_old(&case).await?;
        // Another session locks a row that will be deleted, so that the purge waits in the middle of a batch.
        let holding = case.another().await?;
        let hold = case.sql("BEGIN; SELECT 1 FROM {schema}.events WHERE position = 50 FOR UPDATE");
        holding.batch_execute(&hold).await.map_err(failed)?;
        let store = Arc::new(case.store().await?);
        let subscription = Subscription::new("audit", Particular).start(Start::Beginning);
        let relay = Relay::builder().outbox_with(store, [subscription], OutboxOptions::default().retention(soon())).spawn().await?;
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE application_name = '{schema}' AND wait_event_type = 'Lock' AND query LIKE 'DELETE%'";
        wait_until(&case, waiting, 1).await?;
        case.cut().await?;
        // Nothing of an interrupted batch is deleted.
        assert_eq!(case.one::<i64>(COUNT).await?, 500);
        holding.batch_execute("ROLLBACK").await.map_err(failed)?;
        wait_until(&case, COUNT, 2).await?;
        relay.shutdown().await?;
        assert_eq!(left(&case).await?, [7, 500]);
    }
}

case! {
    async fn a_role_without_the_right_to_delete_is_reported_and_keeps_publishing(case) {
        write_old(&case).await?;
        let role = case.schema.as_str().to_owned();
        case.run(&format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {{schema}} TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {{schema}} TO {role};
             GRANT SELECT ON ALL SEQUENCES IN SCHEMA {{schema}} TO {role};
             REVOKE DELETE ON {{schema}}.events FROM {role}"
        )).await?;
        let store: Arc<dyn Store> =
            Arc::new(postrider::store::postgres::PostgresStore::connect(&case.config_as(&role)?).await?);
        let subscription = Subscription::new("audit", Particular).start(Start::Beginning);
        let relay = Relay::builder().outbox_with(store.clone(), [subscription], OutboxOptions::default().retention(soon())).spawn().await?;
        wait_until(&case, "SELECT floor FROM {schema}.subscriptions", 500).await?;
        let trim = Purge::new(Duration::from_secs(60), 10);
        let refused = store.purge(trim).await.unwrap_err();
        assert_eq!(refused.code(), Code::PrivilegeMissing);
        relay.shutdown().await?;
        assert_eq!(case.one::<i64>(COUNT).await?, 500);
        case.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await?;
    }
}
