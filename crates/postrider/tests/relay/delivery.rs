//! The whole path: application transaction, outbox, relay, sink.

use postrider::Event;
use postrider::operate::AuditQuery;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::Start;
use postrider::write::Outbox;

use super::shop::{RecordingSink, Shop, number, order};

#[tokio::test(flavor = "multi_thread")]
async fn committed_events_arrive_in_order_and_rolled_back_ones_never_do() {
    let shop = Shop::open();
    let sink = RecordingSink::new();
    let subscription = Subscription::new("audit", sink.clone()).start(Start::Beginning);
    let relay = Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap();
    let outbox = Outbox::new();
    let mut connection = shop.connect();
    for number in 0..500 {
        let tx = connection.transaction().unwrap();
        outbox.write(&*tx, order(number)).unwrap();
        if number % 5 == 0 { tx.rollback() } else { tx.commit() }.unwrap();
        relay.wake();
    }
    let events = sink.wait_for(400).await;
    relay.shutdown().await.unwrap();
    assert_eq!(events.len(), 400);
    assert!(events.iter().all(|event| !number(event).is_multiple_of(5)));
    for key in 0..7 {
        let of_key: Vec<usize> = events
            .iter()
            .map(|event: &std::sync::Arc<Event>| number(event))
            .filter(|n| n % 7 == key)
            .collect();
        assert!(of_key.is_sorted(), "key {key}: {of_key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_resumes_where_the_previous_one_stopped() {
    let shop = Shop::open();
    let outbox = Outbox::new();
    let connection = shop.connect();
    for round in 0..3 {
        outbox.write_all(&connection, (0..100).map(|n| order(round * 100 + n))).unwrap();
        let sink = RecordingSink::new();
        let subscription = Subscription::new("audit", sink.clone()).start(Start::Beginning);
        let relay = Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap();
        sink.wait_for(100).await;
        relay.shutdown().await.unwrap();
        assert_eq!(sink.events.lock().unwrap().len(), 100, "nothing is delivered twice without a fault");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_of_one_outbox_do_not_disturb_each_other() {
    let shop = Shop::open();
    let (fast, late) = (RecordingSink::new(), RecordingSink::new());
    let outbox = Outbox::new();
    let connection = shop.connect();
    outbox.write_all(&connection, (0..50).map(order)).unwrap();
    let policy = Policy::default().window_events_max(7).batch_events_max(3);
    let subscriptions = [
        Subscription::new("fast", fast.clone()).start(Start::Beginning),
        Subscription::new("late", late.clone()).start(Start::Now).policy(policy),
    ];
    let relay = Relay::builder().outbox(shop.store.clone(), subscriptions).spawn().await.unwrap();
    relay.pause("late", "maintenance").await.unwrap();
    outbox.write_all(&connection, (50..90).map(order)).unwrap();
    relay.wake();
    assert_eq!(fast.wait_for(90).await.len(), 90);
    relay.resume("late").await.unwrap();
    assert_eq!(late.wait_for(40).await.len(), 40, "one that starts now gets what comes after it");
    let audit = shop
        .store
        .list_audit(AuditQuery::default().subscription(Some("late".to_owned())).commands_max(2))
        .await
        .unwrap();
    let changes: Vec<_> =
        audit.iter().map(|entry| (entry.action.as_str(), entry.reason.as_deref())).collect();
    assert_eq!(changes, [("resume", None), ("pause", Some("maintenance"))]);
    assert_eq!(audit[0].made_by, relay.handle().name());
    relay.shutdown().await.unwrap();
}
