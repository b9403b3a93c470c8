//! A relay that a test drives, with its clock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::handler::{Context, HandlerError};
use postrider::relay::Policy;
use postrider::store::sqlite::SqliteStore;
use postrider::{Clock as _, Event, Relay, Subscription, Timestamp};
use postrider_testkit::{Expected, ManualClock, TestOutbox, TestRelay, eventually};

use super::{OrderBilled, OrderPlaced, placed};

const MINUTE: Duration = Duration::from_secs(60);

/// Fails twice. Counts its calls.
fn fails_twice(calls: &Arc<AtomicU32>) -> Subscription {
    let calls = calls.clone();
    let handler = move |_: OrderPlaced, cx: Context| {
        calls.fetch_add(1, Ordering::SeqCst);
        async move { if cx.attempt() < 3 { Err("down".into()) } else { Ok(()) } }
    };
    let policy = Policy::default().backoff_min(5 * MINUTE).backoff_max(60 * MINUTE).backoff_jitter(false);
    Subscription::handler("mail", handler).policy(policy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_is_retried_after_virtual_minutes_and_not_before() {
    let (outbox, calls) = (TestOutbox::new(), Arc::new(AtomicU32::new(0)));
    let of = calls.clone();
    let relay = TestRelay::new(&outbox, move || [fails_twice(&of)]);
    outbox.write(&placed(1));
    let calls = || calls.load(Ordering::SeqCst);
    assert_eq!((relay.run_until_idle().await.waiting, calls()), (1, 1));
    relay.clock().advance(4 * MINUTE);
    assert_eq!((relay.run_until_idle().await.waiting, calls()), (1, 1));
    relay.clock().advance(MINUTE);
    assert_eq!((relay.run_until_idle().await.waiting, calls()), (1, 2));
    relay.clock().advance(10 * MINUTE);
    assert!(relay.run_until_idle().await.is_empty());
    assert_eq!(calls(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_timers_of_a_running_relay_follow_the_clock() {
    let (outbox, calls) = (TestOutbox::new(), Arc::new(AtomicU32::new(0)));
    outbox.write(&placed(1));
    let clock = ManualClock::default();
    let store = SqliteStore::open(outbox.path()).unwrap();
    let builder = Relay::builder().clock(clock.clone()).outbox(store, [fails_twice(&calls)]);
    let relay = builder.spawn().await.unwrap();
    for (attempt, wait) in [(1, Duration::ZERO), (2, 5 * MINUTE), (3, 10 * MINUTE)] {
        clock.advance(wait);
        // The retry is stored before its time passes.
        eventually("the next attempt", async || {
            clock.advance(Duration::from_millis(10));
            calls.load(Ordering::SeqCst) >= attempt
        })
        .await;
        assert_eq!(calls.load(Ordering::SeqCst), attempt);
    }
    relay.shutdown().await.unwrap();
    assert!(clock.now().elapsed > 15 * MINUTE);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_expires_on_the_clock_of_the_test() {
    let outbox = TestOutbox::new();
    let relay = TestRelay::new(&outbox, || {
        [Subscription::handler("mail", |_: OrderPlaced, _| async { Err(HandlerError::from("down")) })]
    });
    relay.clock().set_wall(Timestamp::from_micros(0));
    let event = Event::new("order.placed", r#"{"order": 1, "cents": 1}"#);
    outbox.write(event.with_expires_at(Timestamp::from_micros(0).after(60 * MINUTE)));
    assert_eq!(relay.run_until_idle().await.waiting, 1);
    relay.clock().advance(61 * MINUTE);
    let remaining = relay.run_until_idle().await;
    assert_eq!((remaining.waiting, remaining.dead, remaining.expired), (0, 0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_handlers_write_are_handled_in_the_same_run() {
    let (outbox, billed) = (TestOutbox::new(), Arc::new(Mutex::new(Vec::new())));
    let (file, seen) = (outbox.clone(), billed.clone());
    let relay = TestRelay::new(&outbox, move || {
        let (file, seen) = (file.clone(), seen.clone());
        let bill = Subscription::handler("bill", move |placed: OrderPlaced, _| {
            file.write(&OrderBilled { order: placed.order });
            async { Ok(()) }
        });
        let ship = Subscription::handler("ship", move |billed: OrderBilled, _| {
            seen.lock().unwrap().push(billed.order);
            async { Ok(()) }
        });
        [bill, ship]
    });
    for order in 1..=20 {
        outbox.write(&placed(order));
    }
    assert!(relay.run_until_idle().await.is_empty());
    let mut billed = billed.lock().unwrap().clone();
    billed.sort_unstable();
    assert_eq!(billed, (1..=20).collect::<Vec<i64>>());
    let expected: Vec<Expected> = (0..20).map(|_| Expected::new("order.billed")).collect();
    outbox.emitted().of_type("order.billed").assert(&expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_event_does_not_keep_later_ones_of_its_key_from_being_handled() {
    let outbox = TestOutbox::new();
    let relay = TestRelay::new(&outbox, || {
        [Subscription::handler("mail", |placed: OrderPlaced, _| async move {
            if placed.cents == 0 { Err(HandlerError::dead("nothing to pay")) } else { Ok(()) }
        })]
    });
    for cents in [0, 1, 2] {
        outbox.write(&OrderPlaced { order: 1, cents });
    }
    let remaining = relay.run_until_done().await;
    assert_eq!((remaining.waiting, remaining.dead, remaining.expired), (0, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_a_destination_is_not_done() {
    let outbox = TestOutbox::new();
    let relay = TestRelay::new(&outbox, || {
        let mail = Subscription::handler("mail", |_: OrderPlaced, _| async { Ok(()) });
        [mail.router(postrider::route::Router::by_topic())]
    });
    outbox.write(Event::new("order.placed", r#"{"order": 1, "cents": 1}"#));
    let remaining = relay.run_until_idle().await;
    assert_eq!((remaining.unrouted, remaining.waiting, remaining.dead), (1, 0, 0));
    assert!(!remaining.is_empty());
}
