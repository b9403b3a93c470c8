//! The examples of docs/src/testing.md.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::handler::{Context, HandlerError, Handlers, Result};
use postrider::inbox::{Inbox, Received};
use postrider::relay::Policy;
use postrider::{Event, Outbox, Subscription};
use postrider_testkit::{CrashTest, Emitted, Expected, Handled, HandlerTest, TestOutbox, TestRelay};
use serde_json::json;

#[derive(Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.placed", aggregate = "Order")]
struct OrderPlaced {
    #[event(aggregate_id)]
    order: i64,
    cents: i64,
}

fn place_order(tx: &rusqlite::Transaction<'_>, order: i64) -> postrider::Result<()> {
    Outbox::new().write(tx, &OrderPlaced { order, cents: 1200 })?;
    Ok(())
}

#[test]
fn placing_an_order_emits_one_event() {
    let outbox = TestOutbox::new(); // a temporary SQLite file with the tables of Postrider
    let mut db = outbox.connect();
    let tx = db.transaction().unwrap();
    place_order(&tx, 42).unwrap();
    Emitted::in_sqlite(&tx)
        .assert(&[Expected::new("order.placed").aggregate("Order", 42).payload(json!({"cents": 1200}))]);
}

async fn send_mail(placed: OrderPlaced, cx: Context) -> Result {
    match placed.cents {
        0 => Err(HandlerError::dead("nothing to pay")),
        _ if cx.attempt() == 1 => Err("the mail server is down".into()),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn a_free_order_is_dead_and_another_is_tried_again() {
    let test = HandlerTest::new("mail", Handlers::new().on(send_mail));
    let free = test.deliver(&OrderPlaced { order: 1, cents: 0 }).await;
    assert_eq!(free, Handled::Dead { reason: "nothing to pay".into() });

    let event = Event::json("order.placed", &OrderPlaced { order: 2, cents: 1200 }).unwrap();
    assert!(matches!(test.deliver(&event).await, Handled::Retry { .. }));
    assert_eq!(test.deliver(&event).await, Handled::Done); // the second attempt
}

#[tokio::test]
async fn mail_is_sent_after_the_server_was_down_for_five_minutes() {
    let outbox = TestOutbox::new();
    let policy = Policy::default().backoff_min(Duration::from_secs(300)).backoff_jitter(false);
    let relay = TestRelay::new(&outbox, move || {
        [Subscription::handler("mail", send_mail).policy(policy.clone())] // again for each run
    });
    outbox.write(&OrderPlaced { order: 42, cents: 1200 });

    assert_eq!(relay.run_until_idle().await.waiting, 1); // failed, and waits for its retry
    relay.clock().advance(Duration::from_secs(300));
    assert!(relay.run_until_idle().await.is_empty());
}

fn queue_mail(db: &mut rusqlite::Connection, placed: &OrderPlaced, cx: &Context) -> Result {
    let tx = db.transaction()?;
    if cx.receive(&Inbox::new(), &tx)? == Received::First {
        tx.execute("INSERT INTO mails VALUES (?)", [placed.order])?;
        cx.crash_point("mail queued");
    }
    tx.commit()?;
    cx.crash_point("committed");
    Ok(())
}

#[tokio::test]
async fn one_mail_is_queued_wherever_the_process_dies() {
    let test = CrashTest::new(|outbox, points| {
        let outbox = outbox.clone();
        let mail = Handlers::new().on(move |placed: OrderPlaced, cx| {
            let mut db = outbox.connect();
            async move { queue_mail(&mut db, &placed, &cx) }
        });
        [Subscription::handlers("mail", points.watch(mail))]
    });
    let setup = |outbox: &TestOutbox| {
        outbox.connect().execute("CREATE TABLE mails (order_id INTEGER)", []).unwrap();
        outbox.write(&OrderPlaced { order: 42, cents: 1200 });
    };
    test.run(setup, |outbox, crash| {
        assert_eq!(outbox.count("SELECT count(*) FROM mails"), 1, "{crash}");
    })
    .await;
}

/// A fake that a test gives to a handler marks points, too.
#[tokio::test]
async fn a_mail_server_gets_an_order_at_least_once_and_with_the_same_key() {
    let mails: Arc<Mutex<Vec<String>>> = Arc::default();
    let (sent, runs) = (mails.clone(), AtomicU32::new(0));
    let test = CrashTest::new(move |_, points| {
        let (sent, at) = (sent.clone(), points.clone());
        let mail = Handlers::new().on(move |_: OrderPlaced, cx| {
            sent.lock().unwrap().push(cx.event_id().to_string());
            at.reach("mail sent");
            async { Ok(()) }
        });
        [Subscription::handlers("mail", points.watch(mail))]
    });
    let setup = |outbox: &TestOutbox| {
        mails.lock().unwrap().clear();
        outbox.write(&OrderPlaced { order: 42, cents: 1200 });
    };
    test.run(setup, |_, crash| {
        let mails = mails.lock().unwrap();
        assert!(!mails.is_empty() && mails.iter().all(|key| *key == mails[0]), "{crash}: {mails:?}");
        runs.fetch_add(1, Ordering::SeqCst);
    })
    .await;
    assert_eq!(runs.load(Ordering::SeqCst), 5); // no crash, three points, and before the progress is stored
}
