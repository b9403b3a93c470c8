//! An operator changes parked rows while the relay runs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::Position;
use postrider::operate::{
    ChangeOptions, Operator, ParkedAction, ParkedChanged, ParkedFilter, ReplayFilter, ReplayOptions,
    ReplayProgress,
};
use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::{Failure, Outcome, REDELIVERY_HEADER, Sink};
use postrider::store::sqlite::SqliteStore;
use postrider::store::{ParkedState, Start};
use postrider::write::Outbox;

use super::shop::{RecordingSink, Shop, acknowledged, number, order};

/// A relay that renews often, and retries only after a long time.
async fn relay(shop: &Shop, sink: impl Sink, max_attempts: u32) -> Relay {
    let policy = Policy::default()
        .max_attempts(max_attempts)
        .backoff_min(Duration::from_secs(600))
        .backoff_max(Duration::from_secs(600))
        .probe_min(Duration::from_millis(5))
        .lease(Duration::from_secs(1));
    let subscription = Subscription::new("audit", sink).start(Start::Beginning).policy(policy);
    Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap()
}

/// A sink that fails on the tenth order while the flag is set.
fn broken() -> (Arc<AtomicBool>, RecordingSink) {
    let is_broken = Arc::new(AtomicBool::new(true));
    let reported = is_broken.clone();
    let sink = RecordingSink::scripted(move |message| match number(&message.event) {
        10 if reported.load(Ordering::SeqCst) => Outcome::Failed(Failure::new("not this one")),
        _ => acknowledged(),
    });
    (is_broken, sink)
}

/// The tenth of 30 orders is dead and all others are delivered; the sink would accept it now.
async fn with_a_dead_event() -> (Shop, RecordingSink, Relay) {
    let shop = Shop::open();
    let (is_broken, sink) = broken();
    Outbox::new().write_all(&shop.connect(), (0..30).map(order)).unwrap();
    let relay = relay(&shop, sink.clone(), 1).await;
    sink.wait_for(29).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'dead'", 1).await;
    is_broken.store(false, Ordering::SeqCst);
    (shop, sink, relay)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_event_that_an_operator_resets_by_sql_is_delivered_once_by_the_running_relay() {
    let (shop, sink, relay) = with_a_dead_event().await;
    let revive = "UPDATE postrider_parked SET state = 'retry', attempts = 0, next_attempt_at = NULL";
    shop.connect().execute(revive, []).unwrap();
    sink.wait_for(30).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    Outbox::new().write_all(&shop.connect(), (30..40).map(order)).unwrap();
    let events = sink.wait_for(40).await;
    relay.shutdown().await.unwrap();
    let mut numbers: Vec<usize> = events.iter().map(|event| number(event)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>(), "every event once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_row_without_a_key_is_delivered_in_the_order_of_its_events_key() {
    let (shop, sink, relay) = with_a_dead_event().await;
    // As in a row that could not be read when it was parked.
    let revive =
        "UPDATE postrider_parked SET state = 'retry', attempts = 0, next_attempt_at = NULL, key = NULL";
    shop.connect().execute(revive, []).unwrap();
    let events = sink.wait_for(30).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    shop.wait_until("SELECT count(*) FROM postrider_subscriptions WHERE halted IS NULL", 1).await;
    relay.shutdown().await.unwrap();
    assert_eq!(number(events.last().unwrap()), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_a_waiting_event_by_sql_releases_the_other_events_of_its_key() {
    let shop = Shop::open();
    let (_is_broken, sink) = broken();
    Outbox::new().write_all(&shop.connect(), (0..30).map(order)).unwrap();
    let relay = relay(&shop, sink.clone(), 9).await;
    // 3, then 10 waits, and 17 and 24 behind it.
    sink.wait_for(27).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'retry'", 1).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 3).await;
    shop.connect().execute("DELETE FROM postrider_parked WHERE state = 'retry'", []).unwrap();
    let events = sink.wait_for(29).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    relay.shutdown().await.unwrap();
    let of_key: Vec<usize> = events.iter().map(|event| number(event)).filter(|n| n % 7 == 3).collect();
    assert_eq!(of_key, [3, 17, 24]);
}

/// Through another store, as another process would. The relay leads all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_event_that_an_operator_retries_arrives_once_and_its_message_says_so() {
    let shop = Shop::open();
    let is_broken = Arc::new(AtomicBool::new(true));
    let marked: Arc<Mutex<Vec<(usize, String)>>> = Arc::default();
    let (reported, marks) = (is_broken.clone(), marked.clone());
    let sink = RecordingSink::scripted(move |message| {
        let headers = message.headers();
        if let Some((_, value)) = headers.iter().find(|(name, _)| *name == REDELIVERY_HEADER) {
            marks.lock().unwrap().push((number(&message.event), value.to_owned()));
        }
        match number(&message.event) {
            10 if reported.load(Ordering::SeqCst) => Outcome::Failed(Failure::new("not this one")),
            _ => acknowledged(),
        }
    });
    Outbox::new().write_all(&shop.connect(), (0..30).map(order)).unwrap();
    let relay = relay(&shop, sink.clone(), 1).await;
    sink.wait_for(29).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'dead'", 1).await;
    is_broken.store(false, Ordering::SeqCst);

    let operator = Operator::new(Arc::new(SqliteStore::open(shop.path()).unwrap()), "alice@shop");
    let dead = ParkedFilter::default().states(vec![ParkedState::Dead]);
    let retry = |out_of_order| {
        let options = ChangeOptions::default().out_of_order(out_of_order);
        let (operator, dead) = (operator.clone(), dead.clone());
        async move { operator.change("audit", ParkedAction::Retry, &dead, options, &mut |_| {}).await.unwrap() }
    };
    assert_eq!(retry(false).await, ParkedChanged::new(0, 1, 0), "later events of its key were delivered");
    assert_eq!(retry(true).await, ParkedChanged::new(1, 0, 0));
    let events = sink.wait_for(30).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    relay.shutdown().await.unwrap();
    assert_eq!(events.iter().filter(|event| number(event) == 10).count(), 1);
    assert_eq!(*marked.lock().unwrap(), [(10, "retry".to_owned())], "no other message has the header");
}

/// The orders whose message has the header, in the order of their attempts.
fn marking(fails: impl Fn(usize) -> bool + Send + Sync + 'static) -> (Arc<Mutex<Vec<usize>>>, RecordingSink) {
    let marked: Arc<Mutex<Vec<usize>>> = Arc::default();
    let marks = marked.clone();
    let sink = RecordingSink::scripted(move |message| {
        let number = number(&message.event);
        if let Some((_, value)) = message.headers().iter().find(|(name, _)| *name == REDELIVERY_HEADER) {
            assert_eq!(value, "replay");
            marks.lock().unwrap().push(number);
        }
        if fails(number) { Outcome::Failed(Failure::new("not this one")) } else { acknowledged() }
    });
    (marked, sink)
}

fn operator(shop: &Shop) -> Operator {
    Operator::new(Arc::new(SqliteStore::open(shop.path()).unwrap()), "alice@shop")
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_are_replayed_while_the_relay_leads_arrive_in_order_and_their_messages_say_so() {
    let shop = Shop::open();
    let (marked, sink) = marking(|_| false);
    Outbox::new().write_all(&shop.connect(), (0..30).map(order)).unwrap();
    let relay = relay(&shop, sink.clone(), 1).await;
    sink.wait_for(30).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    shop.wait_until("SELECT min(floor) FROM postrider_subscriptions", 30).await;
    let filter = ReplayFilter::default().to(Some(Position::new(20)));
    let done = operator(&shop).replay("audit", &filter, ReplayOptions::default(), &mut |_| {}).await.unwrap();
    assert_eq!(done.replayed, 20);
    Outbox::new().write_all(&shop.connect(), (30..40).map(order)).unwrap();
    let events = sink.wait_for(60).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    relay.shutdown().await.unwrap();
    let again = marked.lock().unwrap().clone();
    let mut sorted = again.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..20).collect::<Vec<_>>(), "each of them once, and no other message has the header");
    for key in 0..7 {
        let of_key: Vec<usize> = again.iter().copied().filter(|number| number % 7 == key).collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
    let mut numbers: Vec<usize> = events.iter().map(|event| number(event)).collect();
    numbers.sort_unstable();
    let mut wanted: Vec<usize> = (0..40).chain(0..20).collect();
    wanted.sort_unstable();
    assert_eq!(numbers, wanted);
}

/// Its time and its attempts stay as they are.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_before_a_waiting_retry_of_its_key_does_not_hurry_it() {
    let shop = Shop::open();
    let attempts: Arc<AtomicUsize> = Arc::default();
    let counted = attempts.clone();
    let (marked, sink) = marking(move |number| {
        number == 10 && {
            counted.fetch_add(1, Ordering::SeqCst);
            true
        }
    });
    Outbox::new().write_all(&shop.connect(), (0..30).map(order)).unwrap();
    let relay = relay(&shop, sink.clone(), 9).await;
    // 3 is delivered, 10 waits for ten minutes, and 17 and 24 behind it.
    sink.wait_for(27).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 3).await;
    let before = attempts.load(Ordering::SeqCst);
    let filter = ReplayFilter::default().from(Some(Position::new(4))).to(Some(Position::new(4)));
    let done = operator(&shop).replay("audit", &filter, ReplayOptions::default(), &mut |_| {}).await.unwrap();
    assert_eq!(done.replayed, 1);
    sink.wait_for(28).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 3).await;
    // What the relay would wrongly send after the replay is sent before this event of another key arrives.
    Outbox::new().write(&shop.connect(), order(32)).unwrap();
    let events = sink.wait_for(29).await;
    relay.shutdown().await.unwrap();
    assert_eq!(*marked.lock().unwrap(), [3]);
    assert_eq!(attempts.load(Ordering::SeqCst), before, "10 still waits for its time");
    assert_eq!(events[27..].iter().map(|event| number(event)).collect::<Vec<_>>(), [3, 32]);
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'retry'", 1).await;
}

/// What waits leaves room for events that fail; the replay continues when the relay has delivered them.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_adds_no_more_events_while_its_limit_of_them_waits() {
    let shop = Shop::open();
    let (marked, sink) = marking(|_| false);
    Outbox::new().write_all(&shop.connect(), (0..30).map(order)).unwrap();
    let first = relay(&shop, sink.clone(), 1).await;
    sink.wait_for(30).await;
    first.shutdown().await.unwrap();
    let (said, mut waits) = tokio::sync::watch::channel(ReplayProgress::default());
    let operator = operator(&shop);
    let replay = tokio::spawn(async move {
        let options = ReplayOptions::default().waiting_max(15).events_per_second(Some(15));
        let mut progress = |now| {
            said.send_replace(now);
        };
        operator.replay("audit", &ReplayFilter::default(), options, &mut progress).await
    });
    let waiting = waits.wait_for(|now| now.is_waiting).await.map(|now| *now).unwrap();
    assert_eq!((waiting.counts.replayed, waiting.waiting), (15, 15));
    shop.wait_until("SELECT count(*) FROM postrider_parked", 15).await;
    let second = relay(&shop, sink.clone(), 1).await;
    assert_eq!(replay.await.unwrap().unwrap().replayed, 30);
    sink.wait_for(60).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    second.shutdown().await.unwrap();
    assert_eq!(marked.lock().unwrap().len(), 30);
}
