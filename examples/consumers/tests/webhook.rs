//! The example as a user runs it: a relay delivers every event twice, and each has its effect once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use postrider::store::sqlite::SqliteStore;
use postrider::{Event, Relay, Subscription};
use postrider_sinks::webhook::{Webhook, WebhookConfig};
use rusqlite::Connection;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const EVENTS: usize = 20;

fn webhook(address: &str) -> Webhook {
    let mut config = WebhookConfig::new(format!("http://{address}/orders")).secret(SECRET).unwrap();
    config.allow_networks = vec!["127.0.0.0/8".into()];
    Webhook::open(&config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_webhook_consumer_queues_one_mail_per_event_that_is_delivered_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (shop, mail) = (folder.path().join("shop.db"), folder.path().join("mail.db"));
    let mut consumer = Command::new(env!("CARGO_BIN_EXE_webhook"))
        .args([mail.to_str().unwrap(), SECRET])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(consumer.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.next().unwrap().strip_prefix("listening on ").unwrap().to_owned();

    SqliteStore::migrate(&shop).unwrap();
    let store = SqliteStore::open(&shop).unwrap();
    let outbox = store.outbox();
    let mut database = Connection::open(&shop).unwrap();
    let tx = database.transaction().unwrap();
    for order in 0..EVENTS {
        outbox.write(&tx, Event::new("order.placed", format!(r#"{{"order": {order}}}"#))).unwrap();
    }
    tx.commit().unwrap();
    // Two subscriptions deliver the same events, with the same ids.
    let twice = ["one", "two"].map(|name| Subscription::new(name, webhook(&address)));
    let relay = Relay::builder().outbox(store, twice).spawn().await.unwrap();

    let lines = tokio::task::spawn_blocking(move || {
        let printed: Vec<String> = lines.by_ref().take(2 * EVENTS).collect();
        (printed, lines)
    });
    let (printed, mut lines) = lines.await.unwrap();
    relay.shutdown().await.unwrap();
    let count = |prefix: &str| printed.iter().filter(|line| line.starts_with(prefix)).count();
    assert_eq!((count("applied: mail "), count("duplicate")), (EVENTS, EVENTS), "{printed:?}");
    let mails = "SELECT count(*), count(DISTINCT event) FROM mails";
    let mails: (i64, i64) =
        Connection::open(&mail).unwrap().query_row(mails, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(mails, (EVENTS as i64, EVENTS as i64));

    // A request without a signature.
    let mut forged = std::net::TcpStream::connect(&address).unwrap();
    forged.write_all(b"POST /orders HTTP/1.1\r\nwebhook-id: 7\r\ncontent-length: 2\r\n\r\n{}").unwrap();
    let mut answer = String::new();
    forged.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    assert_eq!(lines.next().unwrap(), "refused: the header webhook-timestamp is missing");
    consumer.kill().unwrap();
    consumer.wait().unwrap();
}
