//! A handler whose effect, whose follow-up event and whose progress are one transaction: exactly once in this database.

#![allow(clippy::print_stdout, reason = "what it prints is what it shows")]

use postrider::handler::{Context, Result};
use postrider::inbox::{Inbox, Received};
use postrider::store::sqlite::SqliteStore;
use postrider::{Event, Outbox, Relay, Subscription};
use sqlx::SqlitePool;
use tokio::sync::mpsc;

#[derive(Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.placed")]
struct OrderPlaced {
    order: i64,
}

#[derive(Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.billed")]
struct OrderBilled {
    order: i64,
}

async fn bill(pool: SqlitePool, placed: OrderPlaced, cx: Context) -> Result {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?; // on other databases: begin()
    if cx.receive(&Inbox::new(), &mut tx).await? == Received::First {
        sqlx::query("INSERT INTO bills VALUES (?)").bind(placed.order).execute(&mut *tx).await?;
        Outbox::new().write(&mut tx, &OrderBilled { order: placed.order }).await?;
    }
    tx.commit().await?; // the bill, the event, and that this event is handled: all of them or none
    Ok(())
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    SqliteStore::migrate(&file)?;
    let store = SqliteStore::open(&file)?;
    let pool = SqlitePool::connect(&format!("sqlite://{}", file.display())).await?;
    sqlx::query("CREATE TABLE bills (order_id INTEGER)").execute(&pool).await?;

    let (done, mut billed) = mpsc::unbounded_channel();
    let of = pool.clone();
    let billing = Subscription::handler("billing", move |placed, cx| bill(of.clone(), placed, cx));
    let shipping = Subscription::handler("shipping", move |billed: OrderBilled, _| {
        let done = done.clone();
        async move { Ok(done.send(billed.order)?) }
    });
    let relay = Relay::builder().outbox(store, [billing, shipping]).spawn().await?;

    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    Outbox::new().write(&mut tx, &OrderPlaced { order: 42 }).await?;
    tx.commit().await?;
    println!("order {} is billed and can be shipped", billed.recv().await.unwrap_or_default());
    Ok(relay.shutdown().await?)
}
