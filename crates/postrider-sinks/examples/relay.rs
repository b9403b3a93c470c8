//! The smallest relay: events of a SQLite file or of a database on PostgreSQL, MySQL or MariaDB to a file of JSON
//! lines, until it is interrupted.
//!
//! `cargo run --example relay -- shop.db events.jsonl`, or a URL `postgres://...` or `mysql://...` in place of
//! the file.
//! `LEASE_MS`, `FLUSH_MS` and `WINDOW` set lease, flush interval and window.

use std::sync::Arc;
use std::time::Duration;

use postrider::relay::{Policy, Relay, Subscription};
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::sqlite::SqliteStore;
use postrider::store::{Start, Store};
use postrider_sinks::file::{File, FileConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(database), Some(output)) = (arguments.next(), arguments.next()) else {
        return Err("usage: relay DATABASE OUTPUT".into());
    };
    let number = |name, otherwise| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(otherwise);
    let policy = Policy::default()
        .lease(Duration::from_millis(number("LEASE_MS", 15_000)))
        .flush_interval(Duration::from_millis(number("FLUSH_MS", 50)))
        .window_events_max(number("WINDOW", 8_192) as usize);
    let sink = File::open(&FileConfig::new(output))?;
    let subscription = Subscription::new("audit", sink).start(Start::Beginning).policy(policy);
    let store: Arc<dyn Store> = if database.starts_with("postgres://") {
        Arc::new(PostgresStore::connect(&PostgresConfig::new(&database)?).await?)
    } else if database.starts_with("mysql://") {
        Arc::new(MySqlStore::connect(&MySqlConfig::new(&database)?).await?)
    } else {
        Arc::new(SqliteStore::open(database)?)
    };
    let relay = Relay::builder().outbox(store, [subscription]).spawn().await?;
    tokio::signal::ctrl_c().await?;
    Ok(relay.shutdown().await?)
}
