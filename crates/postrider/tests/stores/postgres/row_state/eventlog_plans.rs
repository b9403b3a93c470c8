//! The fan-out, the handling and the search of layout `eventlog` read few rows of a large table.

use std::sync::Arc;
use std::time::Duration;

use postrider::handler::Context;
use postrider::layout::{RegisteredHandler, RowLayout};
use postrider::relay::Policy;
use postrider::store::postgres::PostgresRowStore;
use postrider::store::{EventFilter, Skipped, Start};
use postrider::{Event, Relay, Result, Subscription};
use postrider_testkit::eventually;

use super::case::Case;

const EVENTS: usize = 5_000;

/// More than the due notifications that a relay lists in one snapshot.
const NOTIFICATIONS: usize = 30_000;

/// The due notifications that a relay lists in one snapshot, and some more.
const LISTED_MAX: i64 = 21_000;

/// Waiting events of five types.
async fn with_waiting_events(events: usize) -> Result<Case> {
    let case = Case::new(RowLayout::Eventlog).await?;
    case.run(&format!(
        "INSERT INTO events
         SELECT lpad(to_hex(n), 32, '0')::uuid, 'shop', md5((n / 4)::text)::uuid, 'Act', '{{}}', now(), now(), (n % 100)::text, 'Order',
                'Type' || n % 5, '{{}}', (now() AT TIME ZONE 'UTC') - n * interval '1 second', FALSE
         FROM generate_series(1, {events}) AS n;
         ANALYZE events"
    ))
    .await?;
    Ok(case)
}

/// Entries that were read from an index, and rows that were read without an index, once the server reports that the
/// index was used.
async fn read_from(case: &Case, table: &str, index: &str) -> Result<(i64, i64)> {
    let entries = format!(
        "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_all_indexes WHERE schemaname = '{{schema}}' AND indexrelname = '{index}'"
    );
    let rows = format!(
        "SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_all_tables WHERE schemaname = '{{schema}}' AND relname = '{table}'"
    );
    for _ in 0..200 {
        case.run("SELECT pg_stat_clear_snapshot()").await?;
        let read = (case.one::<i64>(&entries).await?, case.one::<i64>(&rows).await?);
        if read.0 > 0 {
            return Ok(read);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{index} was not used");
}

#[tokio::test]
async fn a_fan_out_reads_only_the_events_that_it_takes() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = with_waiting_events(EVENTS).await?;
    let store = case.store().await?;
    let notifications = store.notifications().expect("the layout has notifications");
    let mut handler = RegisteredHandler::new("mail");
    handler.types = Some(["Type1", "Type2"].map(str::to_owned).into());
    notifications.register(&handler, Start::Beginning).await?;
    let fanned_out = notifications.fan_out(200, &Skipped::default()).await?;
    assert_eq!((fanned_out.events, fanned_out.notifications), (200, 200));
    let (entries, rows) = read_from(&case, "events", "events_undelivered").await?;
    // At most 200 per type: the oldest of each are merged.
    assert!(entries <= 2 * 200 + 10, "{entries} entries of events_undelivered were read");
    assert_eq!(rows, 0, "the table was read without an index");
    store.close().await;
    Ok(())
}

#[tokio::test]
async fn a_fan_out_to_all_types_reads_only_the_events_that_it_takes() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = with_waiting_events(EVENTS).await?;
    let store = case.store().await?;
    let notifications = store.notifications().expect("the layout has notifications");
    notifications.register(&RegisteredHandler::new("audit"), Start::Beginning).await?;
    let fanned_out = notifications.fan_out(200, &Skipped::default()).await?;
    assert_eq!((fanned_out.events, fanned_out.notifications), (200, 200));
    let (entries, rows) = read_from(&case, "events", "events_undelivered").await?;
    // At most 200 for each of the five types, and one step per type.
    assert!(entries <= 5 * 200 + 10 + 10, "{entries} entries of events_undelivered were read");
    assert_eq!(rows, 0, "the table was read without an index");
    store.close().await;
    Ok(())
}

#[tokio::test]
async fn a_list_of_due_notifications_reads_one_range_of_their_index() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = with_waiting_events(NOTIFICATIONS).await?;
    case.run(
        "UPDATE events SET delivered = TRUE;
         INSERT INTO event_notifications
         SELECT gen_random_uuid(), id, 'mail', namespace, action_id, action_name, action_params, started_date,
                completion_date, model_id, model_type, event_type, payload, event_date, 'PENDING', 0, event_date,
                event_date, event_date
         FROM events",
    )
    .await?;
    case.run("VACUUM ANALYZE event_notifications").await?;
    let handler = Subscription::handler("mail", |_: Arc<Event>, _: Context| std::future::pending()).policy(
        Policy::for_notifications().read_ahead_events_max(100).drain_timeout(Duration::from_millis(1)),
    );
    let store = case.store().await?;
    let notifications = store.notifications().expect("the layout has notifications");
    // A relay counts the backlog of a subscription that it creates.
    notifications.register(&RegisteredHandler::new("mail"), Start::Beginning).await?;
    let relay = Relay::builder().outbox(store, [handler]).spawn().await?;
    let (entries, rows) = read_from(&case, "event_notifications", "event_notifications_due").await?;
    assert!(entries <= LISTED_MAX, "{entries} entries of event_notifications_due were read");
    assert_eq!(rows, 0, "the table was read without an index");
    relay.shutdown().await.ok();
    Ok(())
}

/// Few entries and rows of each table, even if there are many events and notifications.
#[tokio::test]
async fn the_backlog_of_a_handler_reads_a_limited_part_of_the_indexes() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = with_waiting_events(NOTIFICATIONS).await?;
    case.run(
        "INSERT INTO event_notifications
         SELECT gen_random_uuid(), id, 'mail', namespace, action_id, action_name, action_params, started_date,
                completion_date, model_id, model_type, event_type, payload, event_date, 'PENDING', 0, event_date,
                event_date, event_date
         FROM events",
    )
    .await?;
    case.run("VACUUM ANALYZE events").await?;
    case.run("VACUUM ANALYZE event_notifications").await?;
    let store = case.store().await?;
    let notifications = store.notifications().expect("the layout has notifications");
    let mut handler = RegisteredHandler::new("mail");
    // Two patterns for one type: its events count once.
    handler.types = Some(["Type1", "Type*"].map(str::to_owned).into());
    notifications.register(&handler, Start::Beginning).await?;
    // The server counts with a delay: the rows that the INSERT read must not be counted after the reset.
    let counted = "SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_all_tables WHERE schemaname = '{schema}' AND relname = 'events'";
    eventually("the server has counted the rows that the INSERT read", async || {
        case.run("SELECT pg_stat_clear_snapshot()").await?;
        Ok(case.one::<i64>(counted).await? >= NOTIFICATIONS as i64)
    })
    .await?;
    case.run("SELECT pg_stat_reset()").await?;
    let overview = store.overview(10).await?;
    store.close().await;
    let backlog = overview.subscriptions[0].backlog;
    assert_eq!((backlog.events, backlog.more), (10, true));
    let (entries, rows) = read_from(&case, "event_notifications", "event_notifications_due").await?;
    assert!(entries + rows <= 3_000, "{entries} entries and {rows} rows of notifications were read");
    let (entries, rows) = read_from(&case, "events", "events_undelivered").await?;
    assert!(entries + rows <= 3_000, "{entries} entries and {rows} rows of events were read");
    // Reads the whole table, so it comes after the counters were read.
    let oldest: i64 = case
        .one("SELECT (extract(epoch FROM min(event_date)) * 1000000)::bigint FROM event_notifications")
        .await?;
    assert_eq!(backlog.oldest.map(postrider::Timestamp::as_micros), Some(oldest));
    Ok(())
}

#[tokio::test]
async fn events_of_an_action_are_listed_with_its_index() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = with_waiting_events(EVENTS).await?;
    let action: String = case.one("SELECT action_id::text FROM events LIMIT 1").await?;
    let filter = EventFilter::default().action(Some(action.parse().expect("a UUID"))).events_max(10);
    let plan = PostgresRowStore::list_plan(&case.config, &case.table, &filter).await?.join("\n");
    assert!(plan.contains("idx_events_action_id") && !plan.contains("Seq Scan"), "{plan}");
    assert!(!PostgresRowStore::list(&case.config, &case.table, &filter).await?.is_empty());
    Ok(())
}
