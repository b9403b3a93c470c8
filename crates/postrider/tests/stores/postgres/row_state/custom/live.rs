//! A relay on each kind of table: order, poisoned rows, outages, and the fields of an event.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::store::{EventFilter, Purge, RetentionScope, postgres::PostgresRowStore};
use postrider::{BoxFuture, Event, Result};
use postrider_testkit::eventually;

use super::case::Kind;
use crate::mapped::undelivered;
use crate::postgres::row_state::case::Case;
use crate::recording_sink::RecordingSink;
use crate::relay_cases::{KEYS, relay, relay_to};

crate::mapped::mapped_relay_tests!(Case);

#[tokio::test]
async fn mapped_rows_are_listed_with_their_outcome() -> Result<()> {
    for kind in [Kind::Status, Kind::Time, Kind::Noted] {
        if !Case::is_available() {
            return Ok(());
        }
        let case = kind.case().await?;
        let sink = RecordingSink::new(|_, _| None);
        let relay = relay(case.store().await?, &sink).await?;
        kind.write(&case, "a", 2).await?;
        sink.wait_for(2).await;
        relay.shutdown().await?;
        kind.write(&case, "b", 1).await?;
        let all = EventFilter::default().events_max(10);
        let listed = PostgresRowStore::list(&case.config, &case.table, &all).await?;
        let states: Vec<_> = listed.iter().map(|row| row.state.as_deref().unwrap_or_default()).collect();
        assert_eq!(states, ["pending", "done", "done"], "{kind:?}");
        let part = serde_json::json!({"n": 1});
        let one = all.contains(Some(part));
        assert_eq!(PostgresRowStore::list(&case.config, &case.table, &one).await?.len(), 1, "{kind:?}");
    }
    Ok(())
}

/// Records its messages.
struct Keeper(Arc<Mutex<Vec<Event>>>);

impl Sink for Keeper {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            self.0.lock().unwrap().extend(batch.iter().map(|message| (*message.event).clone()));
            batch.iter().map(|_| Outcome::Acknowledged(Receipt::default())).collect()
        })
    }
}

/// The first event of a table, delivered twice: by one relay, and by another one after the row was reset.
async fn delivered(case: &Case, put_back: &str) -> Result<[Event; 2]> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    for round in 1..=2 {
        let relay = relay_to(case.store().await?, Keeper(kept.clone())).await?;
        eventually("it is delivered", async || Ok(kept.lock().unwrap().len() == round)).await?;
        relay.shutdown().await?;
        case.run(put_back).await?;
    }
    let kept = kept.lock().unwrap();
    Ok([kept[0].clone(), kept[1].clone()])
}

#[tokio::test]
async fn a_row_without_a_payload_is_delivered_empty_and_with_the_rows_own_id() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Kind::Noted.case().await?;
    case.run(
        "INSERT INTO shop_events (aggregatetype, aggregateid, type) VALUES ('Order', '7', 'order.erased')",
    )
    .await?;
    let [event, again] = delivered(&case, "DELETE FROM {ledger}.row_done").await?;
    assert_eq!(event.id.to_string(), case.one::<String>("SELECT id::text FROM shop_events").await?);
    assert_eq!((event.event_type.as_str(), event.payload.len()), ("order.erased", 0));
    let about = event.aggregate.as_ref().unwrap();
    assert_eq!((about.kind.as_str(), about.id.as_str()), ("Order", "7"));
    assert_eq!(event.ordering_key().as_deref(), Some("Order/7"));
    assert_eq!(event, again);
    Ok(())
}

#[tokio::test]
async fn an_id_that_is_not_a_uuid_becomes_a_stable_uuid_and_is_sent_in_a_header() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Kind::Status.case().await?;
    let id: String = case.one(&Kind::Status.insert("k", 1)).await?;
    let [event, again] = delivered(&case, "UPDATE shop_events SET step = 'new'").await?;
    assert_eq!(event, again);
    assert_eq!(event.headers.get("event_key"), Some(id.as_str()));
    assert_eq!(event.headers.get("tenant"), Some("north"));
    assert_eq!((event.ordering_key().as_deref(), event.aggregate.as_ref()), (Some("k"), None));
    assert_eq!(&event.payload[..], b"{\"n\": 1}");
    Ok(())
}

/// Only the note records the delivery here, so it is kept as long as its row.
#[tokio::test]
async fn retention_keeps_the_note_of_a_row_that_its_table_keeps() -> Result<()> {
    for scope in [RetentionScope::Own, RetentionScope::All] {
        if !Case::is_available() {
            return Ok(());
        }
        let case = Kind::Noted.case().await?;
        for number in 0..3 {
            for key in 0..KEYS {
                case.run(&Kind::Noted.insert(&format!("key{key}"), number)).await?;
            }
        }
        case.run(
            "UPDATE shop_events SET \"timestamp\" = '2999-01-01' WHERE payload->>'n' = '1';
             INSERT INTO {ledger}.row_done (row_id, done_at)
             SELECT id::text, timestamptz '2020-01-01' + (payload->>'n')::int * interval '1 day' FROM shop_events;
             CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             CREATE TRIGGER keep BEFORE DELETE ON shop_events FOR EACH ROW WHEN (old.payload->>'n' = '0')
             EXECUTE FUNCTION keep()",
        )
        .await?;
        let store = case.store().await?;
        let mut deleted = Vec::new();
        for _ in 0..4 {
            let trim = Purge { scope, ..Purge::new(Duration::from_secs(60), KEYS) };
            deleted.push(store.purge(trim).await?.deleted);
        }
        assert_eq!(deleted, [0, KEYS as u64, KEYS as u64, 0], "rows that stay delay no other");
        let kept = "SELECT string_agg(DISTINCT payload->>'n', ' ') || count(*) FROM shop_events";
        assert_eq!(case.one::<String>(kept).await?, format!("0{KEYS}"));
        assert_eq!(undelivered(&case, Kind::Noted).await?, 0, "none is due again");
        let notes = "SELECT count(*) FROM {ledger}.row_done";
        assert_eq!(case.one::<i64>(notes).await?, KEYS as i64, "the others left no note behind");
    }
    Ok(())
}
