//! Routing rules in a relay: keys for the order, copies that wait for each other, events that wait for a rule.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::Event;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::route::{Router, Rule, Unrouted};
use postrider::sink::{Failure, Message, Outcome};
use postrider::store::Start;
use postrider::write::Outbox;
use postrider_testkit::eventually;

use super::shop::{RecordingSink, Shop, acknowledged, number, order};

fn hasty() -> Policy {
    let (short, long) = (Duration::from_millis(5), Duration::from_millis(20));
    Policy::default().backoff_min(short).backoff_max(long).probe_min(short).probe_max(long)
}

async fn relay(shop: &Shop, sink: RecordingSink, router: Router) -> Relay {
    let subscription =
        Subscription::new("audit", sink).start(Start::Beginning).policy(hasty()).router(router);
    Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap()
}

/// The `number`th order, of the `number % 3`th region; its own key is its number.
fn regional(number: usize) -> Event {
    order(number).with_key(number.to_string()).with_header("region", format!("r{}", number % 3))
}

fn by_region() -> Router {
    Router::to("orders").first_match([Rule::new().key("{header.region}").header("by", "{type}")]).unwrap()
}

fn of_region(events: &[Arc<Event>], region: usize) -> Vec<usize> {
    events.iter().map(|event| number(event)).filter(|n| n % 3 == region).collect()
}

const KEYS_PARKED: &str = "SELECT count(*) FROM postrider_parked WHERE key = 'r1'";

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_rule_orders_delivery_and_is_sent_with_the_message() {
    let shop = Shop::open();
    let open = Arc::new(AtomicBool::new(false));
    let gate = open.clone();
    let sink = RecordingSink::scripted(move |message: &Message| {
        let n = number(&message.event);
        assert_eq!(message.key(), Some(&*format!("r{}", n % 3)));
        assert_eq!(message.headers().get("by"), Some("order.placed"));
        let fails = n == 1 && !gate.load(Ordering::SeqCst);
        if fails { Outcome::Failed(Failure::new("not yet")) } else { acknowledged() }
    });
    Outbox::new().write_all(&shop.connect(), (0..30).map(|n| regional(n).with_max_attempts(1_000))).unwrap();
    let relay = relay(&shop, sink.clone(), by_region()).await;
    sink.wait_for(20).await;
    shop.wait_until(KEYS_PARKED, 10).await;
    open.store(true, Ordering::SeqCst);
    let events = sink.wait_for(30).await;
    relay.shutdown().await.unwrap();
    assert_eq!(of_region(&events, 1), (0..10).map(|n| 3 * n + 1).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_waited_for_a_rule_are_delivered_before_newer_events_of_their_new_key() {
    let shop = Shop::open();
    let outbox = Outbox::new();
    outbox.write_all(&shop.connect(), (0..30).map(regional)).unwrap();
    let sink = RecordingSink::new();
    let elsewhere = Router::by_topic().first_match([Rule::to("users").types(["user.*"])]).unwrap();
    let first = relay(&shop, sink.clone(), elsewhere).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'unrouted'", 30).await;
    first.shutdown().await.unwrap();

    outbox.write_all(&shop.connect(), (30..300).map(regional)).unwrap();
    let second = relay(&shop, sink.clone(), by_region()).await;
    let events = sink.wait_for(300).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    second.shutdown().await.unwrap();
    for region in 0..3 {
        assert!(of_region(&events, region).is_sorted(), "region {region}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_may_give_parked_events_another_key_at_the_next_start() {
    let shop = Shop::open();
    Outbox::new().write_all(&shop.connect(), (0..30).map(regional)).unwrap();
    let failing = RecordingSink::scripted(|message| match message.key() {
        Some("r1") => Outcome::Failed(Failure::new("no")),
        _ => acknowledged(),
    });
    let first = relay(&shop, failing.clone(), by_region()).await;
    failing.wait_for(20).await;
    shop.wait_until(KEYS_PARKED, 10).await;
    first.shutdown().await.unwrap();

    let one_key = Router::to("orders").first_match([Rule::new().key("all")]).unwrap();
    let sink = RecordingSink::new();
    let second = relay(&shop, sink.clone(), one_key).await;
    let events = sink.wait_for(10).await;
    second.shutdown().await.unwrap();
    assert_eq!(of_region(&events, 1), (0..10).map(|n| 3 * n + 1).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_for_two_destinations_waits_for_the_one_that_is_down_and_repeats_nothing_to_the_other() {
    let shop = Shop::open();
    let (up, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
    let (gate, log) = (up.clone(), sent.clone());
    let sink = RecordingSink::scripted(move |message: &Message| {
        if &*message.destination == "search" && !gate.load(Ordering::SeqCst) {
            return Outcome::Down(Failure::new("connection refused"));
        }
        log.lock().unwrap().push((message.destination.clone(), number(&message.event)));
        acknowledged()
    });
    let router = Router::by_topic().every_match([Rule::to("audit"), Rule::to("search")]).unwrap();
    Outbox::new().write_all(&shop.connect(), (0..50).map(order)).unwrap();
    let relay = relay(&shop, sink.clone(), router).await;
    sink.wait_for(1).await;
    eventually("a destination is down", async || relay.status()[0].state.destinations_down > 0).await;
    assert_eq!(relay.status()[0].state.acknowledged, 0, "no event is done while a copy is missing");
    up.store(true, Ordering::SeqCst);
    sink.wait_for(100).await;
    relay.shutdown().await.unwrap();
    let sent = sent.lock().unwrap();
    assert_eq!(sent.len(), 100, "each destination gets each event once");
    for (destination, customer) in ["audit", "search"].into_iter().flat_map(|d| (0..7).map(move |c| (d, c))) {
        let numbers: Vec<usize> =
            sent.iter().filter(|(d, n)| **d == *destination && n % 7 == customer).map(|(_, n)| *n).collect();
        assert!(numbers.is_sorted() && numbers.len() >= 7, "{destination} {customer}: {numbers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_no_rule_matches_is_skipped_and_counted_where_that_is_the_policy() {
    let shop = Shop::open();
    let sink = RecordingSink::new();
    let rule = Rule::to("orders").types(["order.paid"]);
    let router = Router::by_topic().first_match([rule]).unwrap().unrouted(Unrouted::Skip);
    let paid = Event::new("order.paid", "{\"number\":40}");
    Outbox::new().write_all(&shop.connect(), (0..40).map(order).chain([paid])).unwrap();
    let relay = relay(&shop, sink.clone(), router).await;
    sink.wait_for(1).await;
    // The status is updated after the step that sent the event, and there may be several steps.
    eventually("all others are skipped", async || relay.status()[0].skipped >= 40).await;
    assert_eq!(relay.status()[0].skipped, 40);
    relay.shutdown().await.unwrap();
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
}
