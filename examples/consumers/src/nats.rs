//! A NATS JetStream consumer that queues one mail per order, however often an event is delivered.
//!
//! `cargo run -p postrider-consumers-example --features nats --bin nats -- mail.db nats://127.0.0.1:4222 ORDERS` prints a line per
//! message. It can be killed at any time and started again.
#![allow(clippy::print_stdout, reason = "what it prints is what it shows")]

use std::time::Duration;

use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::{self, Message};
use futures_util::StreamExt as _;
use postrider::inbox::{Inbox, Incoming, Once};
use postrider::store::sqlite::SqliteStore;
use rusqlite::TransactionBehavior;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// After this time without an acknowledgement, the server delivers a message again.
const ACK_WAIT: Duration = Duration::from_secs(5);

/// Read, begin, once, commit. The caller acknowledges.
fn receive(db: &mut rusqlite::Connection, inbox: &Inbox, message: &Message) -> Result<()> {
    let headers = message.headers.iter().flat_map(|all| all.iter());
    let pairs = headers.filter_map(|(name, values)| {
        let name: &str = name.as_ref();
        Some((name, values.first()?.as_str().as_bytes()))
    });
    let incoming = match Incoming::of(pairs, &message.payload) {
        Ok(incoming) => incoming,
        Err(why) => {
            // Not from a relay. Without an acknowledgement it would come again: a service stores it for a person.
            println!("refused: {why}");
            return Ok(());
        }
    };
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let once = inbox.once_blocking(&tx, "mail", incoming.event_id, |tx| queue_mail(tx, &message.payload))?;
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
    let [file, url, stream] = arguments.as_slice() else {
        return Err("usage: nats DATABASE URL STREAM".into());
    };
    SqliteStore::migrate(file)?; // creates the inbox
    let mut db = rusqlite::Connection::open(file)?;
    db.busy_timeout(Duration::from_secs(30))?;
    db.execute("CREATE TABLE IF NOT EXISTS mails (id INTEGER PRIMARY KEY, event BLOB NOT NULL)", [])?;
    let inbox = Inbox::new();
    let context = jetstream::new(async_nats::connect(url).await?);
    let config = Config { durable_name: Some("mail".to_owned()), ack_wait: ACK_WAIT, ..Config::default() };
    let consumer = context.get_stream(stream).await?.get_or_create_consumer("mail", config).await?;
    // One at a time: what a killed consumer has pulled comes again only after the wait.
    let mut messages = consumer.stream().max_messages_per_batch(1).messages().await?;
    while let Some(message) = messages.next().await {
        let message = message?;
        receive(&mut db, &inbox, &message)?;
        message.double_ack().await?; // waits for the server; a duplicate is acknowledged like any other
    }
    Err("the server ended the consumer".into())
}
