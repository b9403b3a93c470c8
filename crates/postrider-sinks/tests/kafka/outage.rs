//! The broker stopped, killed and suspended: at the sink, and under a relay with active writers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postrider::Event;
use postrider::relay::{Policy, Relay, Subscription};
use postrider::sink::Sink;
use postrider::store::{Start, sqlite::SqliteStore};
use postrider::write::Outbox;
use postrider_testkit::conformance::sink::{batch, message};
use postrider_testkit::eventually;
use postrider_testkit::servers::kafka::{Kafka, Record};
use postrider_testkit::verify::{Sighting, verify};
use rusqlite::Connection;

use super::topic::{committed, config, letters, name, open, texts};

type Change = fn(&Kafka);
const OUTAGES: [(&str, Change, Change); 3] = [
    ("stopped", Kafka::stop, Kafka::start),
    ("killed", Kafka::kill, Kafka::start),
    ("frozen", Kafka::pause, Kafka::resume),
];
const KEYS: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_counts_against_no_message_and_the_sink_recovers_soon_after_the_broker() {
    let Some(kafka) = Kafka::private() else { return };
    for transactions in [false, true] {
        let topic = name("outage");
        kafka.create_topic(&topic, 1, &[]);
        let mut config = config(&kafka, &topic);
        config.transactional_id = transactions.then(|| topic.clone());
        let sink = open(&config).await;
        for (number, (how, down, up)) in OUTAGES.into_iter().enumerate() {
            let first = number * 10;
            assert_eq!(letters(&sink.publish(&batch("a", first..first + 1)).await), "a", "{how}");
            down(&kafka);
            let outcomes = sink.publish(&[message("a", first + 1), message("b", first + 1)]).await;
            assert!(["DD", "dd"].contains(&&*letters(&outcomes)), "{how}: {outcomes:?}");
            up(&kafka);
            let back = Instant::now();
            loop {
                let outcomes = sink.publish(&batch("a", first + 1..first + 2)).await;
                match &*letters(&outcomes) {
                    "a" => break,
                    "D" | "d" => assert!(back.elapsed() < Duration::from_secs(60), "{how}: {outcomes:?}"),
                    // The broker ended the transaction while it could not be reached: a new lease is needed.
                    "x" if transactions => sink.take_over(super::topic::LEASE).await.unwrap(),
                    _ => panic!("{how}: {outcomes:?}"),
                }
            }
            println!(
                "transactions {transactions}, {how}: acknowledged {:?} after it was back",
                back.elapsed()
            );
        }
        let mut seen = texts(&committed(&kafka, &topic));
        seen.retain(|text| text.contains("\"a\""));
        let all = seen.len();
        seen.dedup();
        let expected: Vec<String> =
            [0, 1, 10, 11, 20, 21].map(|number| format!("{{\"key\":\"a\",\"number\":{number}}}")).into();
        assert_eq!(seen, expected, "each once or again at once, in order");
        println!("transactions {transactions}: {} duplicates", all - expected.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_delivers_everything_through_outages_and_counts_no_attempt() {
    relay_through_outages(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_with_transactions_delivers_everything_through_outages_and_counts_no_attempt() {
    relay_through_outages(true).await;
}

async fn relay_through_outages(transactions: bool) {
    let Some(kafka) = Kafka::private() else { return };
    let topic = name("relay");
    kafka.create_topic(&topic, 3, &[]);
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("shop.db");
    SqliteStore::migrate(&database).unwrap();
    let shop = Connection::open(&database).unwrap();
    shop.busy_timeout(Duration::from_secs(60)).unwrap();
    shop.execute_batch(
        "CREATE TABLE counted (attempts INTEGER NOT NULL);
         CREATE TRIGGER counted AFTER INSERT ON postrider_parked WHEN NEW.attempts > 0
         BEGIN INSERT INTO counted VALUES (NEW.attempts); END",
    )
    .unwrap();

    let mut config = config(&kafka, &topic);
    config.transactional_id = transactions.then(|| topic.clone());
    let sink = postrider_sinks::kafka::Kafka::open(&config).unwrap();
    let policy = Policy::default().window_events_max(200).lease(Duration::from_secs(6));
    let subscription = Subscription::new("kafka", sink).start(Start::Beginning).policy(policy);
    let store = Arc::new(SqliteStore::open(&database).unwrap());
    let relay = Relay::builder().outbox(store, [subscription]).spawn().await.unwrap();

    let mut writer = Writer { shop, versions: BTreeMap::new(), written: Vec::new() };
    for (how, down, up) in OUTAGES {
        // Some events are in flight when the outage begins, and only one key has events during it.
        writer.write(200, KEYS);
        relay.wake();
        down(&kafka);
        writer.write(20, 1);
        relay.wake();
        let wait = Instant::now();
        while writer.number("SELECT count(*) FROM counted") == 0 && wait.elapsed() < Duration::from_secs(8) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        up(&kafka);
        let back = Instant::now();
        writer.write(100, KEYS);
        relay.wake();
        eventually(&format!("everything is delivered, {how}"), async || {
            writer.number("SELECT floor FROM postrider_subscriptions")
                >= writer.number("SELECT max(position) FROM postrider_events")
        })
        .await;
        println!("transactions {transactions}, {how}: all settled {:?} after it was back", back.elapsed());
    }
    relay.shutdown().await.unwrap();
    assert_eq!(writer.number("SELECT count(*) FROM counted"), 0, "attempts counted against messages");
    let delivered: Vec<Sighting> = committed(&kafka, &topic).iter().map(sighting).collect();
    let verdict = verify(&writer.written, &delivered);
    println!("transactions {transactions}: {verdict}");
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.duplicates <= OUTAGES.len() * 200, "{verdict}");
}

/// Writes events that count the versions of their key.
struct Writer {
    shop: Connection,
    versions: BTreeMap<u64, u64>,
    written: Vec<Sighting>,
}

impl Writer {
    fn write(&mut self, events: u64, keys: u64) {
        for number in 0..events {
            let (key, tx) = (number % keys, self.shop.transaction().unwrap());
            let version = self.versions.entry(key).or_default();
            *version += 1;
            let event = Event::new("counted", format!("{{\"version\":{version}}}")).with_key(key.to_string());
            let written = Outbox::new().write(&tx, event).unwrap();
            tx.commit().unwrap();
            self.written.push(Sighting { id: written.id, key: key.to_string(), version: *version });
        }
    }

    fn number(&self, sql: &str) -> i64 {
        self.shop.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

fn sighting(record: &Record) -> Sighting {
    let envelope: serde_json::Value = serde_json::from_slice(&record.value).unwrap();
    let key = String::from_utf8(record.key.clone().unwrap()).unwrap();
    assert_eq!(envelope["key"].as_str(), Some(&*key));
    Sighting {
        id: envelope["id"].as_str().unwrap().parse().unwrap(),
        key,
        version: envelope["payload"]["version"].as_u64().unwrap(),
    }
}
