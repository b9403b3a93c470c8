//! A bank with two shards, in one run: opens accounts, transfers money to an open account and to a closed one.
//!
//! `transfer FILE FILE`: one SQLite file per shard. It can be killed at any time and started again with the same files.

#![allow(clippy::print_stdout, reason = "an example speaks to its terminal")]

use std::time::Duration;

use anyhow::{Result, bail};
use postrider::action::{AcrossShards, Shards};
use postrider::inbox::Inbox;
use postrider::{Outbox, Shard};
use sqlx::SqlitePool;
use transfer_example::actions::{NewAccount, OpenAccounts, Order, StartTransfer};
use transfer_example::{bank, saga};
use uuid::{Uuid, uuid};

/// Ann has her account on shard 0.0; Bob and Eve have theirs on shard 0.1.
const ANN: Uuid = uuid!("01980000-0000-7000-8000-000000000001");
const BOB: Uuid = uuid!("01980000-0000-7000-8100-000000000002");
const EVE: Uuid = uuid!("01980000-0000-7000-8100-000000000003");

/// What the clients want, with the ids of their requests: a request that is sent again is not executed again.
const ORDERS: [(Uuid, Order); 2] = [
    (uuid!("01980000-0000-7000-8000-00000000000a"), Order { payer: ANN, payee: BOB, amount: 30 }),
    (uuid!("01980000-0000-7000-8000-00000000000b"), Order { payer: ANN, payee: EVE, amount: 20 }),
];

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [first, second] = arguments.as_slice() else { bail!("usage: transfer FILE FILE") };
    let files = vec![(Shard::DEFAULT, first.into()), (Shard::new(0, 1)?, second.into())];
    let shards = bank::open(&files).await?;
    let executor = bank::executor(&shards, Outbox::new())?;
    let relay = bank::relay(&files, || saga::handlers(&executor)).await?;

    let accounts = [(ANN, "Ann", 100, true), (BOB, "Bob", 100, true), (EVE, "Eve", 0, false)];
    let new = accounts.map(|(id, owner, balance, is_open)| NewAccount {
        id,
        owner: owner.into(),
        balance,
        is_open,
    });
    // Both shards get a copy of the events, so that the relay delivers all of them twice.
    executor.call::<OpenAccounts>(new.to_vec()).across_shards(AcrossShards::Copies).execute().await?;
    println!("opened the accounts");

    for (request, order) in ORDERS {
        executor.call::<StartTransfer>(order).execute_once(&Inbox::new(), "clients", request).await?;
        relay.wake();
    }
    println!("started the transfers");

    let started = "SELECT COUNT(*) FROM transfers WHERE state = 'started'";
    let letters = "SELECT COUNT(*) FROM letters";
    while sum(&shards, &files, started).await? > 0 || sum(&shards, &files, letters).await? < 3 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    relay.shutdown().await?;

    for state in ["done", "refused"] {
        let amount = format!("SELECT COALESCE(SUM(amount), 0) FROM transfers WHERE state = '{state}'");
        println!("{state}: {}", sum(&shards, &files, &amount).await?);
    }
    for (id, owner, ..) in accounts {
        let balance = sqlx::query_scalar::<_, i64>("SELECT balance FROM accounts WHERE id = ?").bind(id);
        println!("{owner} has {}", balance.fetch_one(&*shards.get(Shard::of(&id))).await?);
    }
    println!("all together: {}", sum(&shards, &files, "SELECT SUM(balance) FROM accounts").await?);
    println!("letters: {}", sum(&shards, &files, letters).await?);
    Ok(())
}

/// Adds up a number over all shards.
async fn sum(shards: &Shards<SqlitePool>, files: &bank::Files, sql: &str) -> Result<i64> {
    let mut sum = 0;
    for (shard, _) in files {
        let query = sqlx::query_scalar::<_, i64>(sqlx::AssertSqlSafe(sql.to_owned()));
        sum += query.fetch_one(&*shards.get(*shard)).await?;
    }
    Ok(sum)
}
