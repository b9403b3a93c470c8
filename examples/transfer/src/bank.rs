//! The databases of the bank, its executor, and the relay that serves all shards.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use postrider::action::{self, EventPersister, Retry, RetryOn, Shards, SqlxRepository};
use postrider::handler::Handlers;
use postrider::relay::{OutboxOptions, Policy};
use postrider::store::sqlite::SqliteStore;
use postrider::{Relay, Shard, Subscription};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

use crate::actions::{Finish, OpenAccounts, Receive, Refund, StartTransfer, Welcome};
use crate::model::{Account, Letter, Receipt, Transfer};

pub type Executor = action::Executor<SqlitePool>;

/// Each shard and its file. The first one is the default.
pub type Files = Vec<(Shard, PathBuf)>;

/// Creates the tables of every shard, and opens all of them.
pub async fn open(files: &Files) -> Result<Shards<SqlitePool>> {
    let mut pools = Vec::new();
    for (shard, file) in files {
        pools.push((*shard, open_one(file).await?));
    }
    let shards = Shards::new(pools[0].1.clone());
    Ok(pools.into_iter().fold(shards, |shards, (shard, pool)| shards.with(shard, pool)))
}

async fn open_one(file: &Path) -> Result<SqlitePool> {
    SqliteStore::migrate(file)?; // the outbox and the inbox
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(file)).await?;
    sqlx::raw_sql(include_str!("../schema.sql")).execute(&pool).await?;
    Ok(pool)
}

/// The executor of the bank: it reads and writes each row on its shard.
pub fn executor(shards: &Shards<SqlitePool>, outbox: impl EventPersister<SqlitePool>) -> Result<Executor> {
    let letters = SqlxRepository::<Letter, _>::sharded(shards.clone());
    let accounts = SqlxRepository::<Account, _>::sharded(shards.clone());
    let transfers = SqlxRepository::<Transfer, _>::sharded(shards.clone());
    let often = Retry::times(100).delay(Duration::from_millis(5));
    let executor = Executor::sharded(shards.clone())
        .namespace("com.example.bank")
        .persister(outbox)
        .action(OpenAccounts { accounts: accounts.clone() })
        .action(StartTransfer { accounts: accounts.clone() })
        .action(Receive { accounts: accounts.clone() })
        .action(Finish { transfers: transfers.clone() })
        .action(Refund { accounts: accounts.clone(), transfers: transfers.clone() })
        .action(Welcome { letters: letters.clone() })
        .repository(accounts)
        .repository(transfers)
        .repository(SqlxRepository::<Receipt, _>::sharded(shards.clone()))
        .repository(letters)
        .retry(RetryOn::Stale, often)
        .retry(RetryOn::Busy, often)
        .build()?;
    Ok(executor)
}

/// One relay for all shards. A shard that is down delays only itself.
pub async fn relay(files: &Files, handlers: impl Fn() -> Handlers) -> Result<Relay> {
    // A new process takes over after a second, instead of 15. A step is never given up: the money is on its way.
    let policy = Policy::default()
        .lease(Duration::from_secs(1))
        .max_attempts(u32::MAX)
        .backoff_min(Duration::from_millis(50))
        .backoff_max(Duration::from_secs(1));
    let mut relay = Relay::builder();
    for (shard, file) in files {
        let saga = Subscription::handlers("saga", handlers()).policy(policy.clone());
        let options = OutboxOptions::default().name(shard.to_string());
        relay = relay.outbox_with(SqliteStore::open(file)?, [saga], options);
    }
    Ok(relay.spawn().await?)
}
