//! Failures, and which other events they affect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::{Failure, Message, Outcome, Sink};
use postrider::store::Start;
use postrider::write::Outbox;
use postrider::{BoxFuture, Event, Timestamp};
use postrider_testkit::eventually;

use super::shop::{RecordingSink, Shop, acknowledged, number, order};

/// Short backoff, so that tests do not wait.
fn hasty() -> Policy {
    Policy::default()
        .max_attempts(3)
        .backoff_min(Duration::from_millis(5))
        .backoff_max(Duration::from_millis(20))
        .probe_min(Duration::from_millis(5))
        .probe_max(Duration::from_millis(20))
        .publish_timeout(Duration::from_millis(300))
        .lease(Duration::from_secs(2))
}

async fn relay(shop: &Shop, sink: impl Sink) -> Relay {
    let subscription = Subscription::new("audit", sink).start(Start::Beginning).policy(hasty());
    Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap()
}

fn of_customer(events: &[Arc<postrider::Event>], customer: usize) -> Vec<usize> {
    events.iter().map(|event| number(event)).filter(|n| n % 7 == customer).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_event_is_dead_and_visible_and_all_others_arrive() {
    let shop = Shop::open();
    let sink = RecordingSink::scripted(|message| match number(&message.event) {
        10 => Outcome::Rejected(Failure::new("too large")),
        _ => acknowledged(),
    });
    Outbox::new().write_all(&shop.connect(), (0..70).map(order)).unwrap();
    let relay = relay(&shop, sink.clone()).await;
    let events = sink.wait_for(69).await;
    shop.wait_until(
        "SELECT count(*) FROM postrider_parked WHERE state = 'dead' AND last_error = 'too large'",
        1,
    )
    .await;
    relay.shutdown().await.unwrap();
    assert_eq!(of_customer(&events, 3), [3, 17, 24, 31, 38, 45, 52, 59, 66]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_event_is_retried_before_later_events_of_its_key() {
    let shop = Shop::open();
    let failures = AtomicUsize::new(2);
    let sink = RecordingSink::scripted(move |message| {
        let fails = number(&message.event) == 10
            && failures
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok();
        if fails { Outcome::Failed(Failure::new("the handler failed")) } else { acknowledged() }
    });
    Outbox::new().write_all(&shop.connect(), (0..70).map(order)).unwrap();
    let relay = relay(&shop, sink.clone()).await;
    let events = sink.wait_for(70).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    relay.shutdown().await.unwrap();
    for customer in 0..7 {
        assert!(of_customer(&events, customer).is_sorted(), "customer {customer}");
    }
}

/// Its message fails as long as the relay runs.
fn patient() -> Policy {
    hasty().max_attempts(u32::MAX)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aggregate_does_not_wait_for_another_type_with_its_id() {
    let shop = Shop::open();
    let sink = RecordingSink::scripted(|message| {
        assert_eq!(message.key(), Some("2"), "the key of the message is the id of the aggregate");
        match message.event.aggregate.as_ref().unwrap().kind.as_str() {
            "Order" => Outcome::Failed(Failure::new("the handler failed")),
            _ => acknowledged(),
        }
    });
    let about = |kind: &str| Event::new("changed", "{}").with_aggregate(kind, "2");
    Outbox::new().write_all(&shop.connect(), [about("Order"), about("User"), about("Order")]).unwrap();
    let subscription = Subscription::new("audit", sink.clone()).start(Start::Beginning).policy(patient());
    let relay = Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap();
    let events = sink.wait_for(1).await;
    assert_eq!(events[0].aggregate.as_ref().unwrap().kind, "User");
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE key = 'Order/2' AND state = 'retry'", 1)
        .await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_an_earlier_version_parked_under_its_aggregate_id_is_delivered() {
    let shop = Shop::open();
    let failing = RecordingSink::scripted(|_| Outcome::Failed(Failure::new("the handler failed")));
    Outbox::new().write_all(&shop.connect(), (0..2).map(|_| order(2))).unwrap();
    let subscription =
        |sink: RecordingSink| Subscription::new("audit", sink).start(Start::Beginning).policy(patient());
    let relay = Relay::builder().outbox(shop.store.clone(), [subscription(failing)]).spawn().await.unwrap();
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'retry'", 1).await;
    relay.shutdown().await.unwrap();
    shop.connect().execute("UPDATE postrider_parked SET key = '2'", []).unwrap();
    let sink = RecordingSink::new();
    let relay =
        Relay::builder().outbox(shop.store.clone(), [subscription(sink.clone())]).spawn().await.unwrap();
    assert_eq!(sink.wait_for(2).await.len(), 2);
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_destination_delays_only_its_own_subscription() {
    let shop = Shop::open();
    let down = RecordingSink::scripted(|_| Outcome::Down(Failure::new("connection refused")));
    let up = RecordingSink::new();
    let subscriptions = [
        Subscription::new("down", down).start(Start::Beginning).policy(hasty()),
        Subscription::new("up", up.clone()).start(Start::Beginning).policy(hasty()),
    ];
    let relay = Relay::builder().outbox(shop.store.clone(), subscriptions).spawn().await.unwrap();
    Outbox::new().write_all(&shop.connect(), (0..500).map(order)).unwrap();
    relay.wake();
    assert_eq!(up.wait_for(500).await.len(), 500);
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_counts_no_attempt() {
    wait_out(|_| Outcome::Retryable(Failure::new("no answer"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_that_begins_in_the_middle_of_a_batch_counts_no_attempt() {
    wait_out(|number| {
        // The sink received this message first, and the others when it no longer acknowledged anything.
        if number == 0 {
            return acknowledged();
        }
        let mut failure = Failure::new("no answer");
        failure.after_last_acknowledgement = true;
        Outcome::Retryable(failure)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_next_to_acknowledgements_counts_only_when_it_is_repeated() {
    let shop = Shop::open();
    let cut = AtomicBool::new(true);
    let tries = Arc::new(AtomicUsize::new(0));
    let sink = RecordingSink::scripted({
        let tries = tries.clone();
        move |message| match number(&message.event) {
            // The connection breaks for this message, while the destination accepts all others.
            10 if cut.swap(false, Ordering::Relaxed) => Outcome::Ambiguous(Failure::new("cut")),
            11 => {
                tries.fetch_add(1, Ordering::Relaxed);
                Outcome::Retryable(Failure::new("no answer"))
            }
            _ => acknowledged(),
        }
    });
    Outbox::new().write_all(&shop.connect(), (0..70).map(order)).unwrap();
    trace_attempts(&shop);
    let relay = relay(&shop, sink.clone()).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'dead' AND attempts = 3", 1).await;
    relay.shutdown().await.unwrap();
    assert!(tries.load(Ordering::Relaxed) >= 6);
    shop.wait_until("SELECT count(DISTINCT position) FROM counted", 1).await;
}

/// Records every attempt that is counted against a message, even if its row is deleted later.
fn trace_attempts(shop: &Shop) {
    let trace = "CREATE TABLE counted (position INTEGER, attempts INTEGER);
         CREATE TRIGGER count AFTER INSERT ON postrider_parked WHEN new.attempts > 0
         BEGIN INSERT INTO counted VALUES (new.position, new.attempts); END";
    shop.connect().execute_batch(trace).unwrap();
}

/// A sink that does not know the order of its failures: the acknowledged messages of the batch seem to prove that the
/// destination is up.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_in_the_middle_of_a_batch_counts_no_attempt_even_if_the_sink_cannot_detect_it() {
    wait_out(|number| match number {
        0 => acknowledged(),
        _ => Outcome::Retryable(Failure::new("no answer")),
    })
    .await;
}

/// The destination has this outcome for a while, and then acknowledges every message.
async fn wait_out(answer: impl Fn(usize) -> Outcome + Send + Sync + 'static) {
    let shop = Shop::open();
    let (over, tries) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let sink = RecordingSink::scripted({
        let (over, tries) = (over.clone(), tries.clone());
        move |message| {
            tries.fetch_add(1, Ordering::Relaxed);
            if over.load(Ordering::Relaxed) { acknowledged() } else { answer(number(&message.event)) }
        }
    });
    trace_attempts(&shop);
    Outbox::new().write_all(&shop.connect(), (0..70).map(order)).unwrap();
    let relay = relay(&shop, sink.clone()).await;
    eventually("40 messages were tried", async || tries.load(Ordering::Relaxed) >= 40).await;
    over.store(true, Ordering::Relaxed);
    let events = sink.wait_for(70).await;
    relay.shutdown().await.unwrap();
    shop.wait_until("SELECT count(*) FROM counted", 0).await;
    for customer in 0..7 {
        assert!(of_customer(&events, customer).is_sorted(), "customer {customer}");
    }
}

/// All events are delivered except one, for which the sink always has this outcome.
async fn only_one_event_is_given_up(outcome: impl Fn() -> Outcome + Send + Sync + 'static) {
    let shop = Shop::open();
    let sink = RecordingSink::scripted(move |message| match number(&message.event) {
        10 => outcome(),
        _ => acknowledged(),
    });
    Outbox::new().write_all(&shop.connect(), (0..70).map(order)).unwrap();
    let relay = relay(&shop, sink.clone()).await;
    sink.wait_for(69).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'dead' AND attempts = 3", 1).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_on_which_the_sink_panics_affects_no_other_event() {
    only_one_event_is_given_up(|| panic!("a bug in the sink")).await;
}

/// Never answers the first batch.
struct HangsOnce(AtomicBool, RecordingSink);

impl Sink for HangsOnce {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        if self.0.swap(false, Ordering::Relaxed) {
            Box::pin(std::future::pending())
        } else {
            self.1.publish(batch)
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_a_response_is_sent_again() {
    let shop = Shop::open();
    let kept = RecordingSink::new();
    Outbox::new().write_all(&shop.connect(), (0..70).map(order)).unwrap();
    let relay = relay(&shop, HangsOnce(AtomicBool::new(true), kept.clone())).await;
    assert_eq!(kept.wait_for(70).await.len(), 70);
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_past_its_expiry_is_not_delivered() {
    let shop = Shop::open();
    let sink = RecordingSink::new();
    let late = order(0).with_expires_at(Timestamp::from_micros(1));
    Outbox::new().write_all(&shop.connect(), [late, order(7), order(1)]).unwrap();
    let relay = relay(&shop, sink.clone()).await;
    let events = sink.wait_for(2).await;
    shop.wait_until("SELECT count(*) FROM postrider_parked WHERE state = 'expired'", 1).await;
    relay.shutdown().await.unwrap();
    let mut numbers: Vec<usize> = events.iter().map(|event| number(event)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_history_stops_the_subscription_until_an_operator_accepts_it() {
    let shop = Shop::open();
    let sink = RecordingSink::new();
    let connection = shop.connect();
    Outbox::new().write_all(&connection, (0..10).map(order)).unwrap();
    let relay = relay(&shop, sink.clone()).await;
    sink.wait_for(10).await;
    // As after a restored backup: the last events are missing and their positions are reused.
    connection
        .execute_batch(
            "BEGIN;
             DELETE FROM postrider_events WHERE position > 5;
             UPDATE sqlite_sequence SET seq = 5 WHERE name = 'postrider_events';
             COMMIT",
        )
        .unwrap();
    Outbox::new().write_all(&connection, (10..20).map(order)).unwrap();
    shop.wait_until("SELECT count(*) FROM postrider_subscriptions WHERE halted IS NOT NULL", 1).await;
    assert_eq!(sink.events.lock().unwrap().len(), 10, "nothing is delivered before the history is accepted");
    let start = Start::Position(postrider::Position::new(6));
    shop.store.accept_history("audit", start).await.unwrap();
    let events = sink.wait_for(20).await;
    relay.shutdown().await.unwrap();
    let numbers: Vec<usize> = events[10..].iter().map(|event| number(event)).collect();
    assert_eq!(numbers.len(), 10);
    assert!(numbers.iter().all(|n| *n >= 10), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_the_sink_never_tries_is_given_up_eventually() {
    only_one_event_is_given_up(|| Outcome::Untried).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_settling_fails_nothing_is_published_again() {
    let shop = Shop::open();
    let sink = RecordingSink::new();
    let connection = shop.connect();
    shop.store.subscribe("audit", Start::Beginning).await.unwrap();
    connection
        .execute_batch(
            "CREATE TRIGGER no_settling BEFORE UPDATE OF done ON postrider_subscriptions
             BEGIN SELECT RAISE(ABORT, 'the disk is full'); END",
        )
        .unwrap();
    Outbox::new().write_all(&connection, (0..70).map(order)).unwrap();
    let policy = hasty().lease(Duration::from_millis(100));
    let subscription = Subscription::new("audit", sink.clone()).start(Start::Beginning).policy(policy);
    let relay = Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap();
    sink.wait_for(70).await;
    shop.wait_until("SELECT epoch >= 4 FROM postrider_subscriptions", 1).await;
    assert_eq!(sink.events.lock().unwrap().len(), 70, "only the first owner published");
    connection.execute_batch("DROP TRIGGER no_settling").unwrap();
    shop.wait_until("SELECT floor FROM postrider_subscriptions", 70).await;
    relay.shutdown().await.unwrap();
    assert_eq!(sink.events.lock().unwrap().len(), 140, "what was not settled came once more");
}

/// Never answers.
struct Silent;

impl Sink for Silent {
    fn publish<'a>(&'a self, _batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_waits_for_an_unresponsive_sink_only_until_its_time_limit() {
    let shop = Shop::open();
    Outbox::new().write_all(&shop.connect(), (0..7).map(order)).unwrap();
    let policy = hasty().publish_timeout(Duration::from_secs(600)).drain_timeout(Duration::from_millis(50));
    let subscription = Subscription::new("audit", Silent).start(Start::Beginning).policy(policy);
    let relay = Relay::builder().outbox(shop.store.clone(), [subscription]).spawn().await.unwrap();
    eventually("a message is in flight", async || relay.status()[0].state.in_flight > 0).await;
    let stopped = tokio::time::timeout(Duration::from_secs(60), relay.shutdown()).await;
    stopped.expect("the shutdown hung").unwrap();
    shop.wait_until("SELECT count(*) FROM postrider_leases", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_cannot_be_read_is_dead_and_visible_and_all_others_arrive() {
    let shop = Shop::open();
    let sink = RecordingSink::new();
    let connection = shop.connect();
    Outbox::new().write_all(&connection, (0..7).map(order)).unwrap();
    connection
        .execute("INSERT INTO postrider_events (type, payload, action) VALUES ('x', '', '{\"foo\":1}')", [])
        .unwrap();
    Outbox::new().write_all(&connection, (7..14).map(order)).unwrap();
    let relay = relay(&shop, sink.clone()).await;
    sink.wait_for(14).await;
    let dead = "SELECT count(*) FROM postrider_parked
                WHERE state = 'dead' AND position = 8 AND last_error LIKE '%position 8 is not readable%'";
    shop.wait_until(dead, 1).await;
    relay.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_destination_that_requests_a_pause_pauses_its_subscription_and_loses_nothing() {
    let shop = Shop::open();
    let gone = Arc::new(AtomicBool::new(true));
    let sink = RecordingSink::scripted({
        let gone = gone.clone();
        move |_| match gone.load(Ordering::Relaxed) {
            true => Outcome::Down(Failure::new("gone for good").pausing()),
            false => acknowledged(),
        }
    });
    Outbox::new().write_all(&shop.connect(), (0..70).map(order)).unwrap();
    let relay = relay(&shop, sink.clone()).await;
    shop.wait_until("SELECT count(*) FROM postrider_subscriptions WHERE paused = 'gone for good'", 1).await;
    assert_eq!(relay.status()[0].state.paused.as_deref(), Some("gone for good"));
    gone.store(false, Ordering::Relaxed);
    relay.resume("audit").await.unwrap();
    assert_eq!(sink.wait_for(70).await.len(), 70);
    shop.wait_until("SELECT count(*) FROM postrider_parked", 0).await;
    relay.shutdown().await.unwrap();
}
