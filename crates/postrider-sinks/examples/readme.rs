//! The example of the README: write an event in your transaction, handle it, act, and relay it to a destination.
#![allow(clippy::print_stdout, reason = "what it prints is what it shows")]

use postrider::action::{Action, Executor, Model, Plan, SqlxRepository};
use postrider::store::sqlite::SqliteStore;
use postrider::{Event, Relay, Subscription};
use postrider_sinks::file::{File, FileConfig};
use sqlx::SqlitePool;
use uuid::Uuid;

#[derive(Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.placed", aggregate = "Order")]
struct OrderPlaced {
    #[event(aggregate_id)]
    order: Uuid,
    cents: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    SqliteStore::migrate("shop.db")?;
    let store = SqliteStore::open("shop.db")?;
    let outbox = store.outbox(); // writes where the relay reads
    let db = SqlitePool::connect("sqlite://shop.db").await?;
    let table = "CREATE TABLE IF NOT EXISTS orders (id BLOB PRIMARY KEY, cents INTEGER, version INTEGER)";
    sqlx::query(table).execute(&db).await?;

    // 1. Write: the event is part of your transaction.
    let (order, cents) = (Uuid::now_v7(), 4200);
    let mut tx = db.begin().await?;
    sqlx::query("INSERT INTO orders VALUES (?, ?, 1)").bind(order).bind(cents).execute(&mut *tx).await?;
    outbox.write(&mut tx, &OrderPlaced { order, cents }).await?;
    tx.commit().await?; // both, or neither

    // 2. Handle: a function of this program, called for every committed event of its type, with retries.
    let receipt = Subscription::handler("receipt", async |placed: OrderPlaced, _| {
        println!("order {}: {} cents", placed.order, placed.cents);
        Ok(())
    });

    // 3. Act: the same as 1, and the event cannot be forgotten.
    let executor = Executor::builder(db.clone()).namespace("shop").outbox(outbox).action(PlaceOrder);
    let executor = executor.repository(SqlxRepository::<Order, _>::new(db)).build()?;
    executor.execute::<PlaceOrder>(1700).await?;

    // 4. Relay: delivers what is committed, to the handler and to a file, until the program stops.
    let audit = Subscription::new("audit", File::open(&FileConfig::new("events.jsonl"))?);
    let relay = Relay::builder().outbox(store, [receipt, audit]).spawn().await?;
    tokio::signal::ctrl_c().await?;
    Ok(relay.shutdown().await?)
}

#[derive(Model)]
#[model(table = "orders")]
struct Order {
    id: Uuid,
    cents: i64,
    version: i64,
}

/// Stages rows and their events; the executor writes both in one transaction.
#[derive(Action)]
struct PlaceOrder;

impl Action for PlaceOrder {
    type Params = i64;
    type Output = ();
    type Error = postrider::Error;

    async fn perform(&self, plan: &mut Plan, cents: &i64) -> postrider::Result<()> {
        let order = Order { id: Uuid::now_v7(), cents: *cents, version: 1 };
        let placed = OrderPlaced { order: order.id, cents: order.cents };
        plan.add(order)?.event(&placed)?;
        Ok(())
    }
}
