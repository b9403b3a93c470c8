//! Many events: two operators change the same ones at once, and a list of a million.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::operate::{Operator, ParkedFilter};
use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::{BoxFuture, store::Start};
use postrider_dashboard::Role;
use uuid::Uuid;

use crate::client::{Client, serve};
use crate::outbox::{TestOutbox, dead};

const EVENTS: usize = 10_000;

/// Counts how often each event arrives.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<HashMap<Uuid, usize>>>);

impl Sink for Counting {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        let mut counts = self.0.lock().unwrap();
        batch.iter().for_each(|message| *counts.entry(message.event.id).or_default() += 1);
        let outcomes = batch.iter().map(|_| Outcome::Acknowledged(Receipt::default())).collect();
        Box::pin(std::future::ready(outcomes))
    }
}

/// Confirms a plan, waits for its end, and returns how many events it says that it retried.
async fn confirm(client: Client, plan: String) -> usize {
    assert_eq!(client.post(&plan, &[("reason", "the consumer is fixed")]).await.status, 303);
    loop {
        let answer = client.get(&plan).await;
        if answer.header("refresh").is_none() {
            let body = answer.body;
            let number = body.split("<strong>").nth(1).and_then(|rest| rest.split('<').next());
            return number.unwrap_or_else(|| panic!("no result: {body}")).replace(',', "").parse().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn two_operators_at_once(outbox: TestOutbox) {
    outbox.park("mail", dead(EVENTS)).await;
    let served = serve(outbox.source()).await;
    let mut plans = Vec::new();
    for _ in 0..2 {
        let client = Client::of(&served, Role::Operator).await;
        let form = [("kind", "dead"), ("action", "retry"), ("scope", "all")];
        let plan = client.post("/o/shop/changes", &form).await.location().to_owned();
        assert!(client.page(&plan).await.contains("<strong>10,000</strong>"), "both count all of them");
        plans.push((client, plan));
    }
    let [(one, plan_one), (two, plan_two)] = plans.try_into().ok().unwrap();
    let (one, two) = tokio::join!(confirm(one, plan_one), confirm(two, plan_two));
    // An event that waits for a retry may be retried again, so both may have changed it.
    assert!(one.max(two) <= EVENTS && one + two >= EVENTS, "{one} and {two}");
    let sink = Counting::default();
    let policy = Policy::default().lease(Duration::from_secs(2));
    let subscription = Subscription::new("mail", sink.clone()).start(Start::Beginning).policy(policy);
    let store = outbox.store().await;
    let relay = Relay::builder().outbox(store.clone(), [subscription]).spawn().await.unwrap();
    let operator = Operator::new(store, "test");
    let name = ["mail".to_owned()];
    let delivered = async {
        while operator.count(&name, &ParkedFilter::default(), 1).await.unwrap().events > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), delivered).await.expect("all are delivered");
    relay.shutdown().await.unwrap();
    let counts = sink.0.lock().unwrap();
    assert_eq!(counts.len(), EVENTS);
    assert!(counts.values().all(|times| *times == 1), "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_retry_the_same_events_and_each_goes_out_once_on_sqlite() {
    two_operators_at_once(TestOutbox::sqlite().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_operators_retry_the_same_events_and_each_goes_out_once_on_postgres() {
    let Some(outbox) = TestOutbox::postgres("dashboard_many").await else { return };
    two_operators_at_once(outbox).await;
}

/// A measurement: `cargo test -p postrider-dashboard --test dashboard -- --ignored --nocapture million`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn a_million_dead_events_are_listed_within_a_second() {
    let Some(outbox) = TestOutbox::postgres("dashboard_million").await else { return };
    outbox.park("mail", dead(1)).await;
    let url = postrider_testkit::servers::postgres::url().unwrap();
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let fill = "SET search_path = dashboard_million;
        INSERT INTO events (type, key, payload) SELECT 'order.placed', 'Order/' || n, 'x' FROM generate_series(2, 1000000) n;
        INSERT INTO parked (subscription, position, event_id, key, state, attempts, last_error)
            SELECT 'mail', position, id, key, 'dead', 3, 'timeout' FROM events WHERE position > 1;
        ANALYZE events; ANALYZE parked;";
    client.batch_execute(fill).await.unwrap();
    let served = serve(outbox.source()).await;
    let browser = Client::of(&served, Role::Operator).await;
    browser.page("/").await;
    let paths = [
        "/",
        "/o/shop/dead",
        "/o/shop/dead?subscription=mail&after=500000%2Fmail",
        "/o/shop/dead?error=timeout",
        "/o/shop/subscriptions/mail",
    ];
    for path in paths {
        let started = tokio::time::Instant::now();
        browser.page(path).await;
        println!("{path}: {:?}", started.elapsed());
    }
}
