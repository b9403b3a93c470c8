//! Layout `eventlog`: every event is stored with its action, and each handler has its own deliveries.

#![allow(clippy::print_stdout, reason = "the example prints instead of sending mail")]

use postrider::event::IntoEvent;
use postrider::handler::{Context, Result};
use postrider::layout::{RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};
use postrider::{ActionContext, Event, Relay, Subscription};

#[derive(Event, serde::Serialize, serde::Deserialize)]
#[event(type = "OrderPlaced", aggregate = "Order")]
struct OrderPlaced {
    #[event(aggregate_id)]
    order: u64,
    email: String,
}

async fn send_mail(placed: OrderPlaced, _: Context) -> Result {
    println!("mail to {}: order {} is placed", placed.email, placed.order);
    Ok(())
}

async fn reserve_stock(placed: OrderPlaced, _: Context) -> Result {
    println!("stock for order {} is reserved", placed.order);
    Ok(())
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL")?;
    let (config, table) = (PostgresConfig::new(&url)?, RowTable::new(RowLayout::Eventlog));
    PostgresRowStore::migrate(&config, &table, RowExtras::default().handlers(true)).await?;
    let store = PostgresRowStore::connect(&config, &table).await?;
    let outbox = store.outbox().namespace("shop");
    let handlers = [Subscription::handler("mail", send_mail), Subscription::handler("stock", reserve_stock)];
    let relay = Relay::builder().outbox(store, handlers).spawn().await?;

    let (mut db, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    let action = ActionContext::new("PlaceOrder", r#"{"cart": 7}"#);
    let placed = OrderPlaced { order: 42, email: "ada@example.org".to_owned() };
    let tx = db.transaction().await?;
    // Your own rows are written in the same transaction.
    outbox.write(&tx, placed.into_event()?.with_action(action)).await?;
    tx.commit().await?;
    tokio::signal::ctrl_c().await?; // until the service stops
    Ok(relay.shutdown().await?)
}
