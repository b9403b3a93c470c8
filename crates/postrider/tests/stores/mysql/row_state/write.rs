//! Writing to tables of other layouts, in the caller's transaction.

use mysql_async::TxOpts;
use postrider::layout::RowLayout;
use postrider::{Code, Event, Limits, Outbox, Result, Written};
use sqlx::Connection;

use super::case::{RowCase, layouts};
use crate::mysql::log::case::{MariaDb, MySql, ServerKind, failed};
use crate::row_database::{a_payload_from_a_text_column_arrives, read};

fn order(number: usize) -> Event {
    Event::new("order.placed", format!("{{\"n\": {number}}}")).with_aggregate("Order", "7")
}

async fn written_arrives<W: ServerKind>() -> Result<()> {
    for layout in layouts() {
        if !RowCase::<W>::is_available() {
            return Ok(());
        }
        let case = RowCase::<W>::new(layout).await?;
        let outbox = Outbox::new().table(case.table.clone());
        let mut client = case.config.client().await?;
        let mut tx = client.start_transaction(TxOpts::default()).await.map_err(failed)?;
        let mut written: Vec<Written> = outbox.write_all(&mut tx, (0..5).map(order)).await?;
        written.push(outbox.write(&mut tx, order(5)).await?);
        tx.commit().await.map_err(failed)?;

        let url = W::KIND.url().unwrap_or_default().replace("mariadb://", "mysql://");
        let mut connection = sqlx::MySqlConnection::connect(&url).await.map_err(failed)?;
        // In every time zone of the writer.
        sqlx::raw_sql("SET time_zone = '+05:30'").execute(&mut connection).await.map_err(failed)?;
        let mut tx = connection.begin().await.map_err(failed)?;
        written.push(outbox.write(&mut tx, order(6)).await?);
        tx.commit().await.map_err(failed)?;
        let mut tx = connection.begin().await.map_err(failed)?;
        outbox.write(&mut tx, order(99)).await?;
        tx.rollback().await.map_err(failed)?;

        let events = read(&case).await?;
        let ids: Vec<_> = events.iter().map(|stored| stored.event.id).collect();
        assert_eq!(ids, written.iter().map(|written| written.id).collect::<Vec<_>>(), "{layout:?}");
        for (number, stored) in events.iter().enumerate() {
            assert_eq!(stored.event.payload, format!("{{\"n\": {number}}}"), "{layout:?}");
            assert_eq!(stored.event.ordering_key().as_deref(), Some("Order/7"));
        }
        let apart = events[6].event.time.as_micros() - events[0].event.time.as_micros();
        assert!((0..3_600_000_000).contains(&apart), "{layout:?}: times are UTC: {apart}");
    }
    Ok(())
}

#[tokio::test]
async fn events_written_with_either_driver_arrive_unchanged_on_mysql() -> Result<()> {
    written_arrives::<MySql>().await
}

#[tokio::test]
async fn events_written_with_either_driver_arrive_unchanged_on_mariadb() -> Result<()> {
    written_arrives::<MariaDb>().await
}

async fn carried<W: ServerKind>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let case = RowCase::<W>::new(RowLayout::OutboxEvents).await?;
    let mut limits = Limits::default();
    limits.text_bytes_max = 1_000;
    let outbox = Outbox::new().limits(limits).table(case.table.clone());
    let mut client = case.config.client().await?;
    let long = Event::new("a", "{}").with_aggregate("Order", "x".repeat(256));
    assert_eq!(outbox.write(&mut client, long).await.unwrap_err().code(), Code::LayoutUnfit);
    case.run("ALTER TABLE outbox_events MODIFY payload LONGTEXT NOT NULL, ADD max_attempts INT").await?;
    a_payload_from_a_text_column_arrives(&case).await
}

#[tokio::test]
async fn a_payload_from_a_text_column_arrives_byte_for_byte_on_mysql() -> Result<()> {
    carried::<MySql>().await
}

#[tokio::test]
async fn a_payload_from_a_text_column_arrives_byte_for_byte_on_mariadb() -> Result<()> {
    carried::<MariaDb>().await
}
