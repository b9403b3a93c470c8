//! The example of the README: an order and its event in one transaction, delivered to a file.

use postrider::store::sqlite::SqliteStore;
use postrider::{Event, Relay, Subscription};
use postrider_sinks::file::{File, FileConfig};

#[derive(Event, serde::Serialize)]
#[event(type = "order.placed", aggregate = "Order")]
struct OrderPlaced {
    #[event(aggregate_id)]
    order: u64,
    cents: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    SqliteStore::migrate("shop.db")?;
    let sink = File::open(&FileConfig::new("events.jsonl"))?;
    let store = SqliteStore::open("shop.db")?;
    let outbox = store.outbox(); // writes where the relay reads
    let relay = Relay::builder().outbox(store, [Subscription::new("audit", sink)]).spawn().await?;

    let mut db = rusqlite::Connection::open("shop.db")?;
    let tx = db.transaction()?;
    tx.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, cents INTEGER)", [])?;
    tx.execute("INSERT INTO orders (cents) VALUES (4200)", [])?;
    let order = tx.last_insert_rowid() as u64;
    outbox.write(&tx, &OrderPlaced { order, cents: 4200 })?; // in the same transaction
    tx.commit()?;
    relay.wake(); // a hint after the commit; without it the relay polls within half a second
    tokio::signal::ctrl_c().await?; // until the service stops
    Ok(relay.shutdown().await?)
}
