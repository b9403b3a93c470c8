//! The example as a user runs it: every event is in the queue twice, the consumer is killed again and again, and each
//! event has its effect once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use postrider::encode::Plain;
use postrider::store::sqlite::SqliteStore;
use postrider::{Event, Relay, Subscription};
use postrider_sinks::rabbitmq::{RabbitMq, RabbitMqConfig};
use postrider_testkit::eventually;
use postrider_testkit::servers::rabbitmq;
use rusqlite::Connection;

const EVENTS: usize = 30;
/// After how many further messages the consumer is killed.
const KILLED_AFTER: [usize; 3] = [1, 7, 12];

struct Consumer {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Consumer {
    fn start(database: &Path, url: &str, queue: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_rabbitmq"))
            .args([database.to_str().unwrap(), url, queue])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// The next lines. It has committed their transactions, and may have acknowledged the last message or not.
    fn read(&mut self, count: usize) -> Vec<String> {
        self.lines.by_ref().take(count).map(Result::unwrap).collect()
    }

    /// Kills it with `kill -9`, and returns what it had printed.
    fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.lines.map_while(Result::ok).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rabbitmq_consumer_queues_one_mail_per_event_though_it_is_killed() {
    let Some(server) = rabbitmq::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (shop, mail) = (folder.path().join("shop.db"), folder.path().join("mail.db"));
    let queue = format!("orders-{}", uuid::Uuid::now_v7().simple());
    server.create_queue(&queue, &["x-queue-type=quorum"]);

    SqliteStore::migrate(&shop).unwrap();
    let store = SqliteStore::open(&shop).unwrap();
    let outbox = store.outbox();
    let mut database = Connection::open(&shop).unwrap();
    let tx = database.transaction().unwrap();
    for order in 0..EVENTS {
        let event = Event::new("order.placed", format!(r#"{{"order": {order}}}"#));
        outbox.write(&tx, event.with_aggregate("Order", order.to_string())).unwrap();
    }
    tx.commit().unwrap();
    // Two subscriptions deliver the same events, with the same ids.
    let sink = || RabbitMq::open(&RabbitMqConfig::new(server.url()).routing_key(&queue)).unwrap();
    let twice = ["one", "two"].map(|name| Subscription::new(name, sink()).encoder(Plain));
    let relay = Relay::builder().outbox(store, twice).spawn().await.unwrap();
    eventually("all events are in the queue twice", async || {
        relay.status().iter().all(|of| of.state.acknowledged == EVENTS as u64)
    })
    .await;
    relay.shutdown().await.unwrap();

    let url = server.url();
    let consumed = tokio::task::spawn_blocking(move || {
        let mut printed = Vec::new();
        for count in KILLED_AFTER {
            let mut consumer = Consumer::start(&mail, &url, &queue);
            printed.extend(consumer.read(count));
            printed.extend(consumer.kill());
        }
        // The last one reads the rest. What was printed and not acknowledged comes again, so this is enough.
        let mut consumer = Consumer::start(&mail, &url, &queue);
        while printed.len() < 2 * EVENTS {
            printed.extend(consumer.read(1));
        }
        let known = "SELECT count(*), count(DISTINCT event) FROM mails";
        let mails = || -> (i64, i64) {
            let database = Connection::open(&mail).unwrap();
            database.query_row(known, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        while mails().1 < EVENTS as i64 {
            printed.extend(consumer.read(1));
        }
        printed.extend(consumer.kill());
        (printed, mails())
    });
    let (printed, mails) = consumed.await.unwrap();
    assert_eq!(mails, (EVENTS as i64, EVENTS as i64), "{printed:?}");
    let count = |prefix: &str| printed.iter().filter(|line| line.starts_with(prefix)).count();
    assert_eq!(count("refused"), 0, "{printed:?}");
    // A consumer may be killed after a commit and before it prints that.
    assert!(count("applied: mail ") <= EVENTS && count("duplicate") > 0, "{printed:?}");
}
