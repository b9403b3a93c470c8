//! Assertions on emitted events.

use std::panic::{AssertUnwindSafe, catch_unwind};

use postrider::store::sqlite::SqliteStore;
use postrider::{ActionContext, Event, Outbox, Timestamp};
use postrider_testkit::{Emitted, Expected, TestOutbox};
use serde_json::json;

use super::{OrderBilled, placed};

/// The message of the assertion that fails.
fn refused(assert: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(assert)).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[test]
fn a_transaction_shows_its_events_before_and_after_the_commit_and_none_after_a_rollback() {
    let outbox = TestOutbox::new();
    outbox.write(&placed(1));
    let mut database = outbox.connect();
    let before = Emitted::in_sqlite(&database);
    let expected = [Expected::of(&placed(2)), Expected::of(&OrderBilled { order: 2 })];

    let tx = database.transaction().unwrap();
    Outbox::new().write(&tx, &placed(2)).unwrap();
    Outbox::new().write(&tx, &OrderBilled { order: 2 }).unwrap();
    Emitted::in_sqlite(&tx).since(&before).assert(&expected);
    outbox.emitted().since(&before).assert_none();
    tx.rollback().unwrap();
    outbox.emitted().since(&before).assert_none();

    let tx = database.transaction().unwrap();
    Outbox::new().write(&tx, &placed(2)).unwrap();
    Outbox::new().write(&tx, &OrderBilled { order: 2 }).unwrap();
    tx.commit().unwrap();
    outbox.emitted().since(&before).assert(&expected);
    assert_eq!(outbox.emitted().of_type("order.placed").events().len(), 2);
}

#[tokio::test]
async fn a_store_shows_the_same_events_as_the_connection() {
    let outbox = TestOutbox::new();
    let mut database = outbox.connect();
    let tx = database.transaction().unwrap();
    for order in 0..1_500 {
        let event =
            Event::new("order.placed", format!("{order}")).with_key("k").with_header("tenant", "blue");
        Outbox::new().write(&tx, event).unwrap();
    }
    tx.commit().unwrap();
    let store = SqliteStore::open(outbox.path()).unwrap();
    let of_store = Emitted::committed(&store).await.unwrap();
    let of_file = outbox.emitted();
    assert_eq!(of_store.events().len(), 1_500);
    for (one, other) in of_store.events().zip(of_file.events()) {
        assert_eq!(one, other);
    }
}

/// An event with every field.
fn whole() -> Event {
    let at = Timestamp::from_micros(1_763_242_500_123_456);
    Event::new("order.placed", r#"{"cents": 100}"#)
        .with_aggregate("Order", "1")
        .with_key("k")
        .with_topic("orders")
        .with_header("tenant", "blue")
        .with_namespace("shop")
        .with_producer("node-1")
        .with_max_attempts(3)
        .with_expires_at(at)
        .with_time(at)
        .with_action(
            ActionContext::new("PlaceOrder", r#"{"cart": 7}"#)
                .with_id(uuid::Uuid::from_u128(7))
                .with_times(at, at),
        )
}

/// Makes one field of an event different.
type Change = fn(&mut Event);

#[test]
fn every_field_of_an_event_is_read_and_compared_except_ids_and_times() {
    let outbox = TestOutbox::new();
    let written = whole();
    outbox.write(written.clone());
    let emitted = outbox.emitted();
    assert_eq!(**emitted.events().next().unwrap(), written);
    let mut other = whole().with_id(uuid::Uuid::from_u128(9)).with_time(Timestamp::from_micros(9));
    if let Some(action) = &mut other.action {
        (action.id, action.started, action.completed) = (uuid::Uuid::from_u128(9), other.time, other.time);
    }
    emitted.assert(&[Expected::of(other)]);
    emitted.assert(&[Expected::new("order.placed").namespace("shop").action("PlaceOrder")]);

    let different: [(&str, Change); 9] = [
        ("aggregate", |event| event.aggregate.as_mut().unwrap().id = "2".to_owned()),
        ("key", |event| event.key = Some("other".to_owned())),
        ("topic", |event| event.topic = Some("other".to_owned())),
        ("namespace", |event| event.namespace = Some("other".to_owned())),
        ("producer", |event| event.producer = Some("other".to_owned())),
        ("action", |event| event.action.as_mut().unwrap().name = "Other".to_owned()),
        ("action.params.cart", |event| event.action.as_mut().unwrap().params = r#"{"cart": 8}"#.to_owned()),
        ("max_attempts", |event| event.max_attempts = Some(4)),
        ("expires_at", |event| event.expires_at = Some(Timestamp::from_micros(9))),
    ];
    for (field, change) in different {
        let mut event = whole();
        change(&mut event);
        let message = refused(|| emitted.assert(&[Expected::of(event)]));
        assert!(message.contains(&format!("{field}: expected ")), "{field}: {message}");
    }
}

#[test]
fn a_difference_names_the_event_and_the_member() {
    let outbox = TestOutbox::new();
    outbox.write(&placed(1));
    outbox.write(Event::new("order.placed", r#"{"order": 2, "lines": [{"sku": "a"}]}"#).with_key("k"));
    let emitted = outbox.emitted();
    let first = || Expected::new("order.placed").aggregate("Order", 1).payload(json!({"cents": 100}));
    let second = || Expected::new("order.placed").key("k").payload(json!({"lines": [{"sku": "a"}]}));
    emitted.assert(&[first(), second()]);
    emitted.assert_contains(&second());

    let wrong =
        [first().payload(json!({"cents": 200})), second().aggregate("Order", 2).header("tenant", "blue")];
    assert_eq!(
        refused(|| emitted.assert(&wrong)),
        "the emitted events are not the expected ones\n  \
         1. order.placed Order/1\n       payload.cents: expected 200, found 100\n  \
         2. order.placed\n       aggregate: expected \"Order/2\", found none\n       \
         header tenant: expected \"blue\", found none\n"
    );
    let other = second().payload(json!({"lines": [{"sku": "b"}]}));
    let message = refused(|| emitted.assert_contains(&other));
    assert!(message.contains("payload.lines[0].sku: expected \"b\", found \"a\""), "{message}");
}

#[test]
fn an_event_too_many_too_few_or_in_another_order_is_refused() {
    let outbox = TestOutbox::new();
    outbox.write(&placed(1));
    outbox.write(&OrderBilled { order: 1 });
    let (one, two) = (Expected::of(&placed(1)), Expected::of(&OrderBilled { order: 1 }));
    outbox.emitted().assert(&[one.clone(), two.clone()]);
    let few = refused(|| outbox.emitted().assert(std::slice::from_ref(&one)));
    assert!(few.contains("2. order.billed\n       this event is not expected"), "{few}");
    let many = refused(|| outbox.emitted().assert(&[one.clone(), two.clone(), one.clone()]));
    assert!(many.contains("3. order.placed Order/1\n       this event was not emitted"), "{many}");
    refused(|| outbox.emitted().assert(&[two, one]));
    refused(|| outbox.emitted().assert_none());
}
