//! A Kafka consumer that queues one mail per order, however often an event is delivered.
//!
//! `cargo run -p postrider-consumers-example --features kafka --bin kafka -- mail.db 127.0.0.1:9092 orders` prints a line per
//! message. It can be killed at any time and started again.
#![allow(clippy::print_stdout, reason = "what it prints is what it shows")]

use std::time::Duration;

use postrider::inbox::{Inbox, Incoming, Once};
use postrider::store::sqlite::SqliteStore;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rusqlite::{Connection, TransactionBehavior};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Read, begin, once, commit. The caller acknowledges.
fn receive(db: &mut Connection, inbox: &Inbox, message: &BorrowedMessage<'_>) -> Result<()> {
    let body = message.payload().unwrap_or_default();
    let headers = message.headers().into_iter().flat_map(|all| all.iter());
    let pairs = headers.filter_map(|header| Some((header.key, header.value?)));
    let incoming = match Incoming::of(pairs, body) {
        Ok(incoming) => incoming,
        Err(why) => {
            // Not from a relay. Without an acknowledgement it would stop this partition: a service stores it for a person.
            println!("refused: {why}");
            return Ok(());
        }
    };
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let once = inbox.once_blocking(&tx, "mail", incoming.event_id, |tx| queue_mail(tx, body))?;
    tx.commit()?; // the mail and the inbox row, or neither
    match once {
        Once::Applied(mail) => println!("applied: mail {mail}"),
        Once::Duplicate => println!("duplicate"),
    }
    Ok(())
}

/// The effect, in the same transaction as the inbox row. Another program sends the mails of this table.
fn queue_mail(tx: &Connection, event: &[u8]) -> Result<i64> {
    tx.execute("INSERT INTO mails (event) VALUES (?)", [event])?;
    Ok(tx.last_insert_rowid())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, brokers, topic] = arguments.as_slice() else {
        return Err("usage: kafka DATABASE BROKERS TOPIC".into());
    };
    SqliteStore::migrate(file)?; // creates the inbox
    let mut db = Connection::open(file)?;
    db.busy_timeout(Duration::from_secs(30))?;
    db.execute("CREATE TABLE IF NOT EXISTS mails (id INTEGER PRIMARY KEY, event BLOB NOT NULL)", [])?;
    let inbox = Inbox::new();
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "mail")
        .set("group.instance.id", "mail-1") // a restart keeps its partitions and does not wait for the session's end
        .set("enable.auto.commit", "false") // an offset is committed after its transaction, never before
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed")
        .create()?;
    consumer.subscribe(&[topic])?;
    loop {
        let Some(message) = consumer.poll(Duration::from_secs(1)) else { continue };
        let message = message?;
        receive(&mut db, &inbox, &message)?;
        consumer.commit_message(&message, CommitMode::Sync)?; // a duplicate is acknowledged like any other
    }
}
