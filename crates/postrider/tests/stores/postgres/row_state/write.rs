//! Writing to tables of other layouts, in the caller's transaction.

use postrider::layout::{EventField, RowLayout};
use postrider::{Code, Event, Outbox, Result, Written};
use sqlx::Connection;
use uuid::Uuid;

use super::case::{Case, failed, url};
use crate::row_database::{a_payload_from_a_text_column_arrives, read};
use crate::test_layouts::STATE_PER_ROW;

fn order(layout: RowLayout, id: Uuid, number: usize) -> Event {
    let event =
        Event::new("order.placed", format!("{{\"n\": {number}}}")).with_aggregate("Order", id.to_string());
    match layout.spec().has_column(EventField::Topic) {
        true => event.with_topic("orders").with_header("trace", "t").with_max_attempts(4),
        false => event,
    }
}

#[tokio::test]
async fn events_written_with_either_driver_arrive_unchanged() -> Result<()> {
    for layout in STATE_PER_ROW {
        if !Case::is_available() {
            return Ok(());
        }
        let mut case = Case::new(layout).await?;
        let (outbox, id) = (Outbox::new().table(case.table.clone()), Uuid::now_v7());
        let tx = case.client.transaction().await.map_err(failed)?;
        let mut written: Vec<Written> = outbox.write_all(&tx, (0..5).map(|n| order(layout, id, n))).await?;
        written.push(outbox.write(&tx, order(layout, id, 5)).await?);
        tx.commit().await.map_err(failed)?;

        let mut connection = sqlx::PgConnection::connect(url()?).await.map_err(failed)?;
        let mut tx = connection.begin().await.map_err(failed)?;
        written.push(outbox.write(&mut tx, order(layout, id, 6)).await?);
        tx.commit().await.map_err(failed)?;
        let mut tx = connection.begin().await.map_err(failed)?;
        outbox.write(&mut tx, order(layout, id, 99)).await?;
        tx.rollback().await.map_err(failed)?;

        let events = read(&case).await?;
        let ids = |events: &[postrider::StoredEvent]| events.iter().map(|e| e.event.id).collect::<Vec<_>>();
        assert_eq!(ids(&events), written.iter().map(|written| written.id).collect::<Vec<_>>(), "{layout:?}");
        for (number, stored) in events.iter().enumerate() {
            let event = &stored.event;
            assert_eq!(event.payload, format!("{{\"n\": {number}}}"), "{layout:?}");
            assert_eq!(event.aggregate.as_ref().unwrap().id, id.to_string());
            let has = |field| layout.spec().has_column(field);
            assert_eq!(event.producer.is_some(), has(EventField::Producer), "{layout:?}");
            if has(EventField::Topic) {
                assert_eq!(event.topic.as_deref(), Some("orders"));
                assert_eq!((event.headers.get("trace"), event.max_attempts), (Some("t"), Some(4)));
                assert_eq!(event.message_key(), Some(id.to_string().as_str()));
            }
            if !has(EventField::Id) {
                assert_eq!(written[number].position.get(), number as i64 + 1, "{layout:?}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn an_event_that_does_not_fit_is_refused_and_the_transaction_continues() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let mut case = Case::new(RowLayout::Outbox).await?;
    let outbox = Outbox::new().table(case.table.clone());
    let tx = case.client.transaction().await.map_err(failed)?;
    let refused = outbox.write(&tx, Event::new("a", "{}").with_aggregate("Order", "7")).await.unwrap_err();
    assert_eq!(refused.code(), Code::LayoutUnfit);
    outbox.write(&tx, order(RowLayout::Outbox, Uuid::now_v7(), 0)).await?;
    tx.commit().await.map_err(failed)?;
    assert_eq!(case.one::<i64>("SELECT count(*) FROM outbox").await?, 1);
    Ok(())
}

#[tokio::test]
async fn an_event_key_that_is_not_a_uuid_is_sent_in_a_header() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::EventOutbox).await?;
    case.run(
        "INSERT INTO event_outbox (event_key, entity_table, entity_pk, event_type, payload, producer_node)
         VALUES ('order-7-placed', 'orders', '7', 'order.placed', '{\"n\": 1}', 'shop-1')",
    )
    .await?;
    let events = read(&case).await?;
    let event = &events[0].event;
    assert_eq!(event.headers.get("event_key"), Some("order-7-placed"));
    assert_eq!((event.message_key(), event.producer.as_deref()), (Some("7"), Some("shop-1")));
    Ok(())
}

#[tokio::test]
async fn a_payload_from_a_text_column_arrives_byte_for_byte() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Case::new(RowLayout::OutboxEvents).await?;
    case.run("ALTER TABLE outbox_events ALTER payload TYPE text, ADD max_attempts int").await?;
    a_payload_from_a_text_column_arrives(&case).await
}
