//! A whole relay from a SQLite outbox to an endpoint.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::Event;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::{SqliteStore, Start, Store};
use postrider::write::Outbox;
use tempfile::TempDir;

use super::server::{Answer, Server};

/// An outbox in a file of its own.
struct Shop {
    folder: TempDir,
    store: Arc<dyn Store>,
}

impl Shop {
    async fn open(events: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(folder.path().join("shop.db")).unwrap());
        store.migrate().await.unwrap();
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
        let policy = Policy {
            backoff_min: Duration::from_millis(5),
            backoff_max: Duration::from_millis(20),
            probe_min: Duration::from_millis(5),
            probe_max: Duration::from_millis(20),
            lease: Duration::from_secs(2),
            ..Policy::default()
        };
        let subscription =
            Subscription::new("hooks", super::sink(server)).start(Start::Beginning).policy(policy);
        Relay::builder().outbox(self.store.clone(), [subscription]).spawn().await.unwrap()
    }

    fn paused(&self) -> Option<String> {
        let query = "SELECT paused FROM postrider_subscriptions WHERE name = 'hooks'";
        self.connect().query_row(query, [], |row| row.get(0)).unwrap()
    }

    async fn wait_until_paused(&self) -> String {
        loop {
            if let Some(reason) = self.paused() {
                return reason;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn parked(&self) -> i64 {
        self.connect().query_row("SELECT count(*) FROM postrider_parked", [], |row| row.get(0)).unwrap()
    }
}

fn numbers(server: &Server, good: impl Fn(usize) -> bool) -> Vec<usize> {
    let number =
        |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).unwrap()["n"].as_u64().unwrap();
    let requests = server.requests();
    let taken = requests.iter().enumerate().filter(|(at, _)| good(*at));
    taken.map(|(_, request)| usize::try_from(number(&request.body)).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_arrives_once_and_each_key_in_order() {
    let shop = Shop::open(300).await;
    let server = Server::start(|_| Answer::status(200)).await;
    let relay = shop.relay(&server).await;
    server.wait_for(300).await;
    relay.shutdown().await.unwrap();
    let seen = numbers(&server, |_| true);
    let mut of_key: HashMap<usize, Vec<usize>> = HashMap::new();
    seen.iter().for_each(|n| of_key.entry(n % 7).or_default().push(*n));
    assert!(of_key.values().all(|numbers| numbers.is_sorted()));
    assert_eq!(seen.len(), 300);
    assert_eq!(of_key.values().map(Vec::len).sum::<usize>(), 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_is_gone_pauses_the_subscription_until_an_operator_lets_it_go_on() {
    let shop = Shop::open(70).await;
    let gone = Arc::new(AtomicUsize::new(1));
    let server = Server::start({
        let gone = gone.clone();
        move |_| Answer::status(if gone.load(Ordering::SeqCst) == 1 { 410 } else { 200 })
    })
    .await;
    let relay = shop.relay(&server).await;
    let reason = shop.wait_until_paused().await;
    assert!(reason.contains("410 Gone"), "{reason}");
    assert_eq!(relay.status()[0].brain.paused.as_deref(), Some(reason.as_str()));
    assert_eq!(shop.parked(), 0, "nothing was counted against an event");

    let before = server.requests().len();
    gone.store(0, Ordering::SeqCst);
    relay.resume("hooks").await.unwrap();
    server.wait_for(before + 70).await;
    relay.shutdown().await.unwrap();
    let mut seen = numbers(&server, |at| at >= before);
    seen.sort_unstable();
    assert_eq!(seen, (0..70).collect::<Vec<_>>());
    assert_eq!((shop.paused(), shop.parked()), (None, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_costs_no_event() {
    let shop = Shop::open(70).await;
    let refusals = Arc::new(AtomicUsize::new(0));
    let server = Server::start({
        let refusals = refusals.clone();
        move |_| Answer::status(if refusals.fetch_add(1, Ordering::SeqCst) < 40 { 401 } else { 200 })
    })
    .await;
    let relay = shop.relay(&server).await;
    server.wait_for(40 + 70).await;
    relay.shutdown().await.unwrap();
    let mut seen = numbers(&server, |at| at >= 40);
    seen.sort_unstable();
    assert_eq!(seen, (0..70).collect::<Vec<_>>());
    assert_eq!(shop.parked(), 0);
}
