//! A RabbitMQ consumer that queues one mail per order, however often an event is delivered.
//!
//! `cargo run -p postrider-consumers-example --features rabbitmq --bin rabbitmq -- mail.db amqp://127.0.0.1:5672 orders` prints a
//! line per message. It can be killed at any time and started again.
#![allow(clippy::print_stdout, reason = "what it prints is what it shows")]

use std::time::Duration;

use futures_util::StreamExt as _;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use postrider::inbox::{Inbox, Incoming, Once};
use postrider::store::sqlite::SqliteStore;
use rusqlite::TransactionBehavior;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How many messages the server sends before they are acknowledged.
const PREFETCH: u16 = 100;

/// Read, begin, once, commit. The caller acknowledges.
fn receive(db: &mut rusqlite::Connection, inbox: &Inbox, delivery: &Delivery) -> Result<()> {
    let headers = delivery.properties.headers().iter().flat_map(|table| table.inner());
    let pairs = headers.filter_map(|(name, value)| match value {
        AMQPValue::LongString(text) => Some((name.as_str(), text.as_bytes())),
        _ => None,
    });
    let incoming = match Incoming::of(pairs, &delivery.data) {
        Ok(incoming) => incoming,
        Err(why) => {
            // Not from a relay. Without an acknowledgement it would come again: a service stores it for a person.
            println!("refused: {why}");
            return Ok(());
        }
    };
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let once = inbox.once_blocking(&tx, "mail", incoming.event_id, |tx| queue_mail(tx, &delivery.data))?;
    tx.commit()?; // the mail and the inbox row, or neither
    match once {
        Once::Applied(mail) => println!("applied: mail {mail}"),
        Once::Duplicate => println!("duplicate"),
    }
    Ok(())
}

/// The effect, in the same transaction as the inbox row. Another program sends the mails of this table.
fn queue_mail(tx: &rusqlite::Connection, event: &[u8]) -> Result<i64> {
    tx.execute("INSERT INTO mails (event) VALUES (?)", [event])?;
    Ok(tx.last_insert_rowid())
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, url, queue] = arguments.as_slice() else {
        return Err("usage: rabbitmq DATABASE URL QUEUE".into());
    };
    SqliteStore::migrate(file)?; // creates the inbox
    let mut db = rusqlite::Connection::open(file)?;
    db.busy_timeout(Duration::from_secs(30))?;
    db.execute("CREATE TABLE IF NOT EXISTS mails (id INTEGER PRIMARY KEY, event BLOB NOT NULL)", [])?;
    let inbox = Inbox::new();
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await?;
    let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
    let mut deliveries = channel.basic_consume(queue.as_str().into(), "mail".into(), options, none).await?;
    while let Some(delivery) = deliveries.next().await {
        let delivery = delivery?;
        receive(&mut db, &inbox, &delivery)?;
        delivery.ack(BasicAckOptions::default()).await?; // a duplicate is acknowledged like any other
    }
    Err("the server ended the connection".into())
}
