//! Writing to the table in the caller's transaction, and other publishers on it.

use std::time::Duration;

use postrider::layout::RowLayout;
use postrider::store::sqlite::SqliteRowStore;
use postrider::store::{Acquired, Budget, Claimed, Start};
use postrider::{Code, Event, Outbox, Result, Written};
use sqlx::Connection;

use super::case::{Case, failed};
use crate::recording_sink::RecordingSink;
use crate::relay_cases::relay;
use crate::row_database::{RowDatabase, lease, read};

fn order(number: usize) -> Event {
    Event::new("order.placed", format!("{{\"n\": {number}}}")).with_aggregate("Order", "7")
}

#[tokio::test]
async fn events_written_with_either_driver_arrive_unchanged() -> Result<()> {
    let case = Case::new()?;
    let outbox = Outbox::new().table(case.table.clone());
    let mut connection = case.connect()?;
    let tx = connection.transaction().map_err(failed)?;
    let mut written: Vec<Written> = outbox.write_all(&tx, (0..5).map(order))?;
    written.push(outbox.write(&tx, order(5))?);
    assert_eq!(outbox.write(&tx, Event::new("a", "{}")).unwrap_err().code(), Code::LayoutUnfit);
    tx.commit().map_err(failed)?;

    let url = format!("sqlite:{}", case.path.display());
    let mut connection = sqlx::SqliteConnection::connect(&url).await.map_err(failed)?;
    let mut tx = connection.begin().await.map_err(failed)?;
    written.push(outbox.write(&mut tx, order(6)).await?);
    tx.commit().await.map_err(failed)?;
    let mut tx = connection.begin().await.map_err(failed)?;
    outbox.write(&mut tx, order(99)).await?;
    tx.rollback().await.map_err(failed)?;

    let events = read(&case).await?;
    let ids: Vec<_> = events.iter().map(|stored| stored.event.id).collect();
    assert_eq!(ids, written.iter().map(|written| written.id).collect::<Vec<_>>());
    for (number, stored) in events.iter().enumerate() {
        assert_eq!(stored.event.payload, format!("{{\"n\": {number}}}"));
        assert_eq!(written[number].position.get(), number as i64 + 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_payload_arrives_byte_for_byte_and_the_attempt_limit_of_the_row_applies() -> Result<()> {
    let case = Case::new()?;
    case.run("ALTER TABLE outbox_events ADD max_attempts INTEGER")?;
    case.run(
        "INSERT INTO outbox_events (aggregate_type, aggregate_id, event_type, payload, max_attempts, created_at)
         VALUES ('Order', '1', 'a', 'no JSON: ü', 7, '2026-01-01T00:00:00Z'),
                ('Order', '1', 'a', 'x', NULL, 'never')",
    )?;
    let store = case.store()?;
    store.subscribe("mail", Start::Beginning).await?;
    let Acquired::Granted(loaded) = store.acquire(lease(Duration::from_secs(600))).await? else {
        panic!("the lease is free")
    };
    let budget = Budget::new(10, 1_000_000);
    let Claimed::Page(page) = store.claimer(&loaded.progress).claim(budget).await? else { panic!("a page") };
    assert_eq!(page.events[0].event.payload, "no JSON: ü");
    assert_eq!(page.events[0].event.max_attempts, Some(7), "the column of the row is the limit");
    assert_eq!(page.events[0].event.time.to_string(), "2026-01-01T00:00:00.000000Z");
    assert_eq!(page.damaged.len(), 1, "a row without a time is reported, and stops no other: {page:?}");
    Ok(())
}

#[tokio::test]
async fn a_relay_does_not_start_while_another_publisher_works_unless_the_table_is_shared() -> Result<()> {
    let mut case = Case::new()?;
    assert_eq!(case.table.layout(), RowLayout::OutboxEvents);
    case.run(&case.insert_sql("k", 0))?;
    case.run("UPDATE outbox_events SET status = 'PUBLISHING', attempt_count = 1, last_attempt_at = CURRENT_TIMESTAMP")?;
    assert_eq!(SqliteRowStore::foreign_claims(&case.path, &case.table)?, 1);
    let store = case.store()?;
    store.subscribe("mail", Start::Beginning).await?;
    assert_eq!(
        store.acquire(lease(Duration::from_secs(600))).await.unwrap_err().code(),
        Code::ForeignPublisher
    );
    store.close().await;
    // An abandoned claim is taken over after the configured time.
    case.run("UPDATE outbox_events SET last_attempt_at = datetime('now', '-1 hour')")?;
    case.table = case.table.foreign_claim_timeout(Some(Duration::from_secs(60)));
    let sink = RecordingSink::new(|_, _| None);
    let relay = relay(case.store()?, &sink).await?;
    sink.wait_for(1).await;
    relay.shutdown().await?;
    assert_eq!(case.one::<String>("SELECT status FROM outbox_events")?, "PUBLISHED");
    Ok(())
}
