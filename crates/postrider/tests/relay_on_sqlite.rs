//! The whole way on a real file: application transaction, outbox, relay, sink.
#![cfg(feature = "sqlite")]

use std::sync::{Arc, Mutex};

use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::{Message, Outcome, Receipt, Sink};
use postrider::store::{Start, Store, sqlite::SqliteStore};
use postrider::write::Outbox;
use postrider::{BoxFuture, Event};
use tokio::sync::watch;

/// Keeps what it was sent and tells how much that is.
#[derive(Clone)]
struct Kept {
    events: Arc<Mutex<Vec<Arc<Event>>>>,
    count: watch::Sender<usize>,
}

impl Kept {
    fn new() -> Self {
        Self { events: Arc::default(), count: watch::channel(0).0 }
    }

    async fn wait_for(&self, count: usize) -> Vec<Arc<Event>> {
        self.count.subscribe().wait_for(|seen| *seen >= count).await.unwrap();
        self.events.lock().unwrap().clone()
    }
}

impl Sink for Kept {
    fn publish<'a>(&'a self, batch: &'a [Message]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            self.events.lock().unwrap().extend(batch.iter().map(|message| message.event.clone()));
            self.count.send_modify(|count| *count += batch.len());
            batch.iter().map(|_| Outcome::Acknowledged(Receipt::default())).collect()
        })
    }
}

struct Shop {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
    store: Arc<dyn Store>,
}

impl Shop {
    fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        SqliteStore::migrate(&path).unwrap();
        let store = Arc::new(SqliteStore::open(&path).unwrap());
        Self { _folder: folder, path, store }
    }

    fn connect(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }
}

fn order(number: usize) -> Event {
    Event::new("order.placed", format!("{{\"number\":{number}}}"))
        .with_aggregate("Order", (number % 7).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn committed_events_arrive_in_order_and_rolled_back_ones_never_do() {
    let shop = Shop::open();
    let sink = Kept::new();
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
    let number = |event: &Event| {
        let text = std::str::from_utf8(&event.payload).unwrap();
        text.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().unwrap()
    };
    assert!(events.iter().all(|event| number(event) % 5 != 0));
    for key in 0..7 {
        let of_key: Vec<usize> = events.iter().map(|e| number(e)).filter(|n| n % 7 == key).collect();
        assert!(of_key.is_sorted(), "key {key}: {of_key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_goes_on_where_the_last_one_left_off() {
    let shop = Shop::open();
    let outbox = Outbox::new();
    let connection = shop.connect();
    for round in 0..3 {
        outbox.write_all(&connection, (0..100).map(|n| order(round * 100 + n))).unwrap();
        let sink = Kept::new();
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
    let (fast, late) = (Kept::new(), Kept::new());
    let outbox = Outbox::new();
    let connection = shop.connect();
    outbox.write_all(&connection, (0..50).map(order)).unwrap();
    let policy = Policy { window_events_max: 7, batch_events_max: 3, ..Policy::default() };
    let subscriptions = [
        Subscription::new("fast", fast.clone()).start(Start::Beginning),
        Subscription::new("late", late.clone()).policy(policy),
    ];
    let relay = Relay::builder().outbox(shop.store.clone(), subscriptions).spawn().await.unwrap();
    relay.pause("late", "maintenance").await.unwrap();
    outbox.write_all(&connection, (50..90).map(order)).unwrap();
    relay.wake();
    assert_eq!(fast.wait_for(90).await.len(), 90);
    relay.resume("late").await.unwrap();
    assert_eq!(late.wait_for(40).await.len(), 40, "a new subscription starts with what comes after it");
    relay.shutdown().await.unwrap();
}
