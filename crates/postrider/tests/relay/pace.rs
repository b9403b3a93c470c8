//! The limit of events per second, in a relay whose clock the test moves.

use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::{Code, Event, Outbox};
use postrider_testkit::ManualClock;

use super::shop::{RecordingSink, Shop, order};

#[tokio::test(flavor = "multi_thread")]
async fn a_sink_gets_no_more_events_per_second_than_its_limit() {
    let (shop, sink, clock) = (Shop::open(), RecordingSink::new(), ManualClock::default());
    Outbox::new().write_all(&shop.connect(), (0..8).map(|n| order(n).with_key(n.to_string()))).unwrap();
    let policy = Policy::default().events_per_second_max(Some(20)).lease(Duration::from_secs(60));
    let subscription = Subscription::new("search", sink.clone()).policy(policy);
    let relay = Relay::builder()
        .clock(clock.clone())
        .outbox(shop.store.clone(), [subscription])
        .spawn()
        .await
        .unwrap();
    // Two events are a tenth of a second's.
    for sent in [2, 4, 6, 8] {
        assert_eq!(sink.wait_for(sent).await.len(), sent);
        clock.advance(Duration::from_millis(99));
        tokio::task::yield_now().await;
        assert_eq!(sink.events.lock().unwrap().len(), sent, "the sink is occupied for 100 ms");
        clock.advance(Duration::from_millis(1));
    }
    relay.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_limit_of_nothing_is_refused() {
    let shop = Shop::open();
    let subscription = Subscription::new("search", RecordingSink::new())
        .policy(Policy::default().bytes_per_second_max(Some(0)));
    let refused = Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap_err();
    assert_eq!(refused.code(), Code::PolicyInvalid);
}

/// Every event counts with all its columns; a larger one than the limit is sent, and the next one waits accordingly.
#[tokio::test(flavor = "multi_thread")]
async fn a_sink_gets_no_more_bytes_per_second_than_its_limit() {
    let (shop, sink, clock) = (Shop::open(), RecordingSink::new(), ManualClock::default());
    let large = |n: usize| Event::new("large", "x".repeat(100_000)).with_key(n.to_string());
    Outbox::new().write_all(&shop.connect(), (0..3).map(large)).unwrap();
    let policy = Policy::default().bytes_per_second_max(Some(100_000)).lease(Duration::from_secs(60));
    let subscription = Subscription::new("search", sink.clone()).policy(policy);
    let relay = Relay::builder()
        .clock(clock.clone())
        .outbox(shop.store.clone(), [subscription])
        .spawn()
        .await
        .unwrap();
    for sent in [1, 2, 3] {
        assert_eq!(sink.wait_for(sent).await.len(), sent);
        clock.advance(Duration::from_millis(990));
        tokio::task::yield_now().await;
        assert_eq!(sink.events.lock().unwrap().len(), sent, "one event is the bytes of a second");
        clock.advance(Duration::from_millis(60));
    }
    relay.shutdown().await.unwrap();
}
