//! A relay from a SQLite outbox to an endpoint.

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::Event;
use postrider::encode::Plain;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::sqlite::SqliteStore;
use postrider::store::{Start, Store};
use postrider::write::Outbox;
use postrider_testkit::eventually;
use tempfile::TempDir;

use super::server::{Answer, Server};

/// An outbox in a new file.
struct Shop {
    folder: TempDir,
    store: Arc<dyn Store>,
}

impl Shop {
    fn open(events: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        SqliteStore::migrate(&path).unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(path).unwrap());
        let shop = Self { folder, store };
        let order = |n: usize| {
            Event::new("order.placed", format!("{{\"n\":{n}}}")).with_key(format!("key-{}", n % 7))
        };
        Outbox::new().write_all(&shop.connect(), (0..events).map(order)).unwrap();
        shop
    }

    fn connect(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.folder.path().join("shop.db")).unwrap()
    }

    async fn relay(&self, server: &Server) -> Relay {
        let policy = Policy::default()
            .backoff_min(Duration::from_millis(5))
            .backoff_max(Duration::from_millis(20))
            .probe_min(Duration::from_millis(5))
            .probe_max(Duration::from_millis(20))
            .lease(Duration::from_secs(2));
        let subscription = Subscription::new("hooks", super::sink(server))
            .start(Start::Beginning)
            .encoder(Plain)
            .policy(policy);
        Relay::builder().outbox(self.store.clone(), [subscription]).spawn().await.unwrap()
    }

    fn paused(&self) -> Option<String> {
        let query = "SELECT paused FROM postrider_subscriptions WHERE name = 'hooks'";
        self.connect().query_row(query, [], |row| row.get(0)).unwrap()
    }

    async fn wait_until_paused(&self) -> String {
        eventually("the subscription is paused", async || self.paused()).await
    }

    fn parked(&self) -> i64 {
        self.connect().query_row("SELECT count(*) FROM postrider_parked", [], |row| row.get(0)).unwrap()
    }
}

/// An endpoint that answers as configured and records the numbers of the events that it accepted.
struct Endpoint {
    server: Server,
    taken: Arc<Mutex<Vec<usize>>>,
}

impl Endpoint {
    async fn start(answer: impl Fn() -> u16 + Send + Sync + 'static) -> Self {
        let taken: Arc<Mutex<Vec<usize>>> = Arc::default();
        let kept = taken.clone();
        let server = Server::start(move |request| {
            let status = answer();
            if status == 200 {
                let event: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
                kept.lock().unwrap().push(usize::try_from(event["n"].as_u64().unwrap()).unwrap());
            }
            Answer::status(status)
        })
        .await;
        Self { server, taken }
    }

    /// Waits until it has accepted this many.
    async fn taken(&self, count: usize) -> Vec<usize> {
        eventually(&format!("{count} events are accepted"), async || {
            Some(self.taken.lock().unwrap().clone()).filter(|taken| taken.len() >= count)
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_once_and_each_key_in_order() {
    let shop = Shop::open(300);
    let endpoint = Endpoint::start(|| 200).await;
    let relay = shop.relay(&endpoint.server).await;
    endpoint.taken(300).await;
    relay.shutdown().await.unwrap();
    let taken = endpoint.taken(300).await;
    for key in 0..7 {
        let of_key: Vec<usize> = taken.iter().copied().filter(|n| n % 7 == key).collect();
        assert_eq!(of_key, (0..300).filter(|n| n % 7 == key).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_gone_pauses_the_subscription_until_an_operator_resumes_it() {
    let shop = Shop::open(70);
    let status = Arc::new(AtomicU16::new(410));
    let answer = status.clone();
    let endpoint = Endpoint::start(move || answer.load(Ordering::SeqCst)).await;
    let relay = shop.relay(&endpoint.server).await;
    let reason = shop.wait_until_paused().await;
    assert!(reason.contains("410 Gone"), "{reason}");
    assert_eq!(relay.status()[0].state.paused.as_deref(), Some(reason.as_str()));
    assert_eq!(shop.parked(), 0, "nothing was counted against an event");
    assert!(endpoint.server.requests().len() <= 7, "no key is tried twice");

    status.store(200, Ordering::SeqCst);
    relay.resume("hooks").await.unwrap();
    let mut taken = endpoint.taken(70).await;
    relay.shutdown().await.unwrap();
    taken.sort_unstable();
    assert_eq!(taken, (0..70).collect::<Vec<_>>());
    assert_eq!((shop.paused(), shop.parked()), (None, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_loses_no_event() {
    let shop = Shop::open(70);
    let requests = AtomicUsize::new(0);
    let refusing = move || if requests.fetch_add(1, Ordering::SeqCst) < 40 { 401 } else { 200 };
    let endpoint = Endpoint::start(refusing).await;
    let relay = shop.relay(&endpoint.server).await;
    let mut taken = endpoint.taken(70).await;
    relay.shutdown().await.unwrap();
    taken.sort_unstable();
    assert_eq!(taken, (0..70).collect::<Vec<_>>());
    assert_eq!(shop.parked(), 0);
}
