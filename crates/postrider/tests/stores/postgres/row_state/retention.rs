//! Which rows retention deletes on PostgreSQL, and which it keeps.

use std::time::Duration;

use postrider::Result;
use postrider::layout::{Ability, RowLayout};
use postrider::relay::{OutboxOptions, Relay, Retention, RetentionScope, Subscription};
use postrider::store::postgres::PostgresRowStore;
use postrider::store::{InboxPurge, Purge, Start};
use postrider_testkit::eventually;

use super::case::{Case, on_every_layout};
use crate::recording_sink::RecordingSink;
use crate::test_layouts::TestLayout;

/// Runs continuously.
fn soon(retention: Retention) -> Retention {
    retention.interval(Duration::from_millis(5))
}

/// A relay delivers pending rows, with this retention, until this many rows are left.
async fn left(case: &Case, retention: Retention, rows: i64) -> Result<()> {
    let subscription = Subscription::new("mail", RecordingSink::new(|_, _| None)).start(Start::Beginning);
    let relay = Relay::builder().outbox_with(
        case.store().await?,
        [subscription],
        OutboxOptions::default().retention(soon(retention)),
    );
    let relay = relay.spawn().await?;
    eventually(
        "all else is deleted",
        async || Ok(case.one::<i64>("SELECT count(*) FROM {t}").await? == rows),
    )
    .await?;
    relay.shutdown().await.map(|_| ())
}

#[tokio::test]
async fn rows_delivered_by_other_publishers_stay_while_those_of_the_relay_are_deleted() -> Result<()> {
    on_every_layout(async |case| {
        let layout = case.layout;
        for number in 0..100 {
            case.run(&case.insert("theirs", number)).await?;
        }
        let delivered = TestLayout::of(layout).delivered("now() - interval '1 year'");
        case.run(&format!("UPDATE {{t}} SET {delivered}")).await?;
        case.run("UPDATE {t} SET created_at = now() - interval '1 year'").await?;
        for number in 0..10 {
            case.run(&case.insert("ours", number)).await?;
        }
        if layout.has(Ability::Expiry) {
            case.run("UPDATE {t} SET expires_at = '2020-01-01'").await?;
        }
        left(&case, Retention::keep_for(Duration::ZERO), 100).await?;
        let all = Retention::keep_for(Duration::from_secs(60)).scope(RetentionScope::All);
        left(&case, all, 0).await?;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn published_rows_are_deleted_at_their_own_expiry() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::Outbox).await?;
    for number in 0..6 {
        case.run(&case.insert("k", number)).await?;
    }
    case.run("UPDATE outbox SET expires_at = now() - interval '1 s' WHERE payload->>'n' IN ('1', '4')")
        .await?;
    left(&case, Retention::EXPIRES_AT, 4).await?;
    let expired = "SELECT count(*) FROM outbox WHERE expires_at < now() OR status <> 'published'";
    assert_eq!(case.one::<i64>(expired).await?, 0, "what is not expired stays");
    // There is no note about a row that another program deleted.
    case.run("DELETE FROM outbox WHERE payload->>'n' = '5'").await?;
    let store = case.store().await?;
    store.purge(Purge { at_expiry: true, ..Purge::new(Duration::ZERO, 10) }).await?;
    assert_eq!(case.one::<i64>("SELECT count(*) FROM {ledger}.row_done").await?, 3);
    Ok(())
}

/// A relay with this retention runs until `processed_events` has these groups and rows.
async fn cleaned(case: &Case, retention: Retention, expected: &str) -> Result<()> {
    let subscription = Subscription::new("mail", RecordingSink::new(|_, _| None)).start(Start::Beginning);
    let relay = Relay::builder().outbox_with(
        case.store().await?,
        [subscription],
        OutboxOptions::default().retention(soon(retention)),
    );
    let relay = relay.spawn().await?;
    let groups = "SELECT string_agg(DISTINCT consumer_group, ' ') || count(*) FROM processed_events";
    eventually("expired rows of the inbox are deleted", async || {
        Ok(case.one::<String>(groups).await? == expected)
    })
    .await?;
    relay.shutdown().await.map(|_| ())
}

#[tokio::test]
async fn expired_rows_of_processed_events_are_deleted_with_retention_forever_and_not_without_a_retention()
-> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::Outbox).await?;
    case.run(
        "INSERT INTO processed_events (event_id, consumer_group, expires_at)
         SELECT gen_random_uuid(), 'a', now() + (n - 5) * interval '1 day' FROM generate_series(1, 9) AS n",
    )
    .await?;
    let purge = Retention::default_for(Some(&case.table)).inbox_purge();
    assert_eq!(case.store().await?.purge_inbox(purge).await?.deleted, 0);
    cleaned(&case, Retention::FOREVER, "a4").await
}

#[tokio::test]
async fn an_inbox_with_another_key_or_none_blocks_neither_delivery_nor_retention_of_the_outbox() -> Result<()>
{
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::Outbox).await?;
    case.run(
        "ALTER TABLE processed_events DROP CONSTRAINT processed_events_pkey;
         ALTER TABLE processed_events ADD PRIMARY KEY (consumer_group, event_id);
         INSERT INTO processed_events (event_id, consumer_group, expires_at)
         SELECT gen_random_uuid(), 'a', now() - interval '1 day' FROM generate_series(1, 5);
         INSERT INTO processed_events (event_id, consumer_group, expires_at)
         SELECT event_id, 'b', now() + interval '1 day' FROM processed_events",
    )
    .await?;
    case.run(&case.insert("k", 1)).await?;
    case.run("UPDATE outbox SET expires_at = '2020-01-01'").await?;
    left(&case, Retention::EXPIRES_AT, 0).await?;
    cleaned(&case, Retention::EXPIRES_AT, "b5").await?;
    let different = PostgresRowStore::differences(&case.config, &case.table).await?;
    assert!(!different.is_empty() && different.iter().all(|reported| !reported.is_harmful), "{different:?}");

    case.run("DROP TABLE processed_events").await?;
    case.run(&case.insert("k", 2)).await?;
    case.run("UPDATE outbox SET expires_at = '2020-01-01'").await?;
    left(&case, Retention::EXPIRES_AT, 0).await
}

/// Rows of several partitions have the same `ctid`, each in its own partition.
#[tokio::test]
async fn of_a_partitioned_inbox_only_expired_rows_are_deleted_and_no_more_than_the_batch() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::Outbox).await?;
    case.run(
        "DROP TABLE processed_events;
         CREATE TABLE processed_events (event_id uuid NOT NULL, consumer_group text NOT NULL,
                                        processed_at timestamptz NOT NULL DEFAULT now(),
                                        expires_at timestamptz NOT NULL)
         PARTITION BY LIST (consumer_group);
         CREATE TABLE part_a PARTITION OF processed_events FOR VALUES IN ('a');
         CREATE TABLE part_b PARTITION OF processed_events FOR VALUES IN ('b');
         CREATE TABLE part_c PARTITION OF processed_events FOR VALUES IN ('c');
         INSERT INTO processed_events (event_id, consumer_group, expires_at)
         SELECT gen_random_uuid(), g.name, now() + g.days * interval '1 day'
         FROM generate_series(1, 5), (VALUES ('a', -3), ('b', -2), ('c', 1)) AS g (name, days)",
    )
    .await?;
    let groups = "SELECT string_agg(consumer_group, '' ORDER BY consumer_group) FROM processed_events";
    let store = case.store().await?;
    for left in ["aabbbbbccccc", "bbbbccccc", "bccccc", "ccccc", "ccccc"] {
        let purge = InboxPurge { older_than: Duration::ZERO, rows_max: 3, scope: RetentionScope::All };
        store.purge_inbox(purge).await?;
        assert_eq!(case.one::<String>(groups).await?, left);
    }
    Ok(())
}
