//! The service as its clients see it: orders over HTTP from many clients at once, a crash in the middle, and at the end
//! every order has one row, one event in Kafka, and one confirmation.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;

use postrider_testkit::servers::kafka::{self, Isolation};
use postrider_testkit::servers::{free_port, postgres};
use postrider_testkit::{eventually, eventually_blocking};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

const CLIENTS: usize = 8;
const ORDERS_EACH: usize = 20;
/// The service is killed after this many answers.
const KILLED_AFTER: usize = 50;

struct Service {
    process: Child,
}

impl Service {
    fn start(settings: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orders"));
        Self { process: command.envs(settings.iter().copied()).spawn().unwrap() }
    }

    /// `kill -9`
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// As a deployment does it; the service must end by itself, without an error.
    fn terminate(mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }
}

/// The status and the body of an answer; `None` if there was none.
fn request(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    let request = format!("{head}content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// Places orders one after the other. An order without an answer is sent again, with the same id.
fn place_orders(address: &str, answered: &mpsc::Sender<u16>) -> Vec<Uuid> {
    let ids: Vec<Uuid> = (0..ORDERS_EACH).map(|_| Uuid::now_v7()).collect();
    for id in &ids {
        let body = format!(r#"{{"id": "{id}", "customer": "ann@example.org", "cents": 4200}}"#);
        let answer = || {
            let (status, _) = request(address, "POST", "/orders", &body)?;
            (status < 500).then_some(status)
        };
        answered.send(eventually_blocking("the order is answered", answer)).unwrap();
    }
    ids
}

/// The orders in Kafka, each with the ids of its events.
fn published(server: &kafka::Kafka, topic: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut orders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for record in server.read(topic, Isolation::Committed) {
        let event: serde_json::Value = serde_json::from_slice(&record.value).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        assert_eq!(event["type"], "order.placed");
        assert_eq!(event["payload"]["order"], event["aggregate"]["id"]);
        orders.entry(text(&event["aggregate"]["id"])).or_default().insert(text(&event["id"]));
    }
    orders
}

async fn database(server: &str) -> (Client, String) {
    let connect = async |url: &str| {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    };
    connect(server).await.batch_execute("CREATE DATABASE order_service").await.unwrap();
    let url = format!("{}/order_service", server.rsplit_once('/').unwrap().0);
    (connect(&url).await, url)
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_order_has_one_row_one_event_and_one_confirmation_though_the_service_is_killed() {
    let (Some(postgres), Some(kafka)) = (postgres::url(), kafka::shared()) else { return };
    let (client, url) = database(postgres).await;
    let topic = format!("orders-{}", Uuid::now_v7().simple());
    kafka.create_topic(&topic, 3, &[]);
    let (address, brokers) = (format!("127.0.0.1:{}", free_port().unwrap()), kafka.brokers());
    let settings = [
        ("DATABASE_URL", &*url),
        ("KAFKA_BROKERS", &*brokers),
        ("KAFKA_TOPIC", &*topic),
        ("LISTEN", &*address),
        ("LEASE_SECONDS", "1"),
    ];
    let start = || {
        let service = Service::start(&settings);
        let is_healthy = || Some(request(&address, "GET", "/health", "")?.0 == 200).filter(|is| *is);
        eventually_blocking("the service is healthy", is_healthy);
        service
    };

    let mut service = start();
    let (answered, answers) = mpsc::channel();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (address, answered) = (address.clone(), answered.clone());
            thread::spawn(move || place_orders(&address, &answered))
        })
        .collect();
    drop(answered);
    let mut statuses: Vec<u16> = answers.iter().take(KILLED_AFTER).collect();
    service.kill();
    service = start();
    statuses.extend(answers.iter());
    let placed: BTreeSet<String> =
        clients.into_iter().flat_map(|client| client.join().unwrap()).map(|id| id.to_string()).collect();
    assert_eq!(placed.len(), CLIENTS * ORDERS_EACH);
    // 200: it was committed, and the answer was lost.
    assert!(statuses.iter().all(|status| [201, 200].contains(status)), "{statuses:?}");

    let refused = |body: &str| request(&address, "POST", "/orders", body).unwrap();
    let (status, why) = refused(r#"{"customer": "ann@example.org", "cents": 0}"#);
    assert_eq!((status, &*why), (422, "an order costs at least one cent"));
    let other = placed.first().unwrap();
    let (status, _) = refused(&format!(r#"{{"id": "{other}", "customer": "bob@example.org", "cents": 1}}"#));
    assert_eq!(status, 409);
    let (status, order) = request(&address, "GET", &format!("/orders/{other}"), "").unwrap();
    assert!(status == 200 && order.contains("\"cents\":4200"), "{status} {order}");

    let expected = placed.len() as i64;
    eventually("every order is confirmed", async || {
        count(&client, "SELECT count(DISTINCT order_id) FROM confirmations").await == expected
    })
    .await;
    kafka.wait_for(&topic, placed.len()).unwrap();
    eventually("every order is in Kafka", async || published(kafka, &topic).len() == placed.len()).await;
    service.terminate();

    assert_eq!(count(&client, "SELECT count(*) FROM orders").await, expected);
    assert_eq!(count(&client, "SELECT count(*) FROM confirmations").await, expected, "each order once");
    let orders = published(kafka, &topic);
    assert!(orders.keys().eq(placed.iter()), "the orders in Kafka are those of the clients");
    assert!(orders.values().all(|events| events.len() == 1), "an order has one event: {orders:?}");
}
