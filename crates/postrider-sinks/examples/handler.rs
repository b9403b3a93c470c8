//! A handler: the program that takes orders also mails their confirmations, after the commit and with retries.

#![allow(clippy::print_stdout, reason = "the example prints instead of sending mail")]

use postrider::handler::{Context, HandlerError, Handlers, Result};
use postrider::store::sqlite::SqliteStore;
use postrider::{Event, Relay, Subscription};
use std::time::Duration;

#[derive(Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.placed", aggregate = "Order")]
struct OrderPlaced {
    #[event(aggregate_id)]
    order: u64,
    email: String,
}

async fn send_mail(placed: OrderPlaced, cx: Context) -> Result {
    if !placed.email.contains('@') {
        return Err(HandlerError::dead(format!("{:?} is not an address", placed.email)));
    }
    // An error here would be retried: use `?` on whatever your mail client returns. Services that take an idempotency
    // key get the id of the event, which is the same in every attempt.
    println!("mail to {}: order {} is placed (event {})", placed.email, placed.order, cx.event_id());
    Ok(())
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    SqliteStore::migrate("shop.db")?;
    let store = SqliteStore::open("shop.db")?;
    let outbox = store.outbox();
    let mail = Handlers::new().on(send_mail).concurrency(8).timeout(Duration::from_secs(10));
    let relay = Relay::builder().outbox(store, [Subscription::handlers("mail", mail)]).spawn().await?;

    let mut db = rusqlite::Connection::open("shop.db")?;
    let tx = db.transaction()?;
    tx.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, email TEXT)", [])?;
    tx.execute("INSERT INTO orders (email) VALUES ('ada@example.org')", [])?;
    let order = tx.last_insert_rowid() as u64;
    outbox.write(&tx, &OrderPlaced { order, email: "ada@example.org".to_owned() })?;
    tx.commit()?;
    relay.wake();
    tokio::signal::ctrl_c().await?; // until the service stops
    Ok(relay.shutdown().await?)
}
