//! A wallet service in one run: opens a wallet, deposits 64 times at once, places an order, and refuses another.
//!
//! `wallet URL`: the database with the tables of `schema.sql` and an outbox. `wallet URL eventlog [SCHEMA]`: the outbox has the
//! layout `eventlog`.

#![allow(clippy::print_stdout, reason = "an example speaks to its terminal")]

mod wallet;

use std::time::Duration;

use anyhow::{Context, Result};
use postrider::action::{Executor, Retry, RetryOn, SqlxDialect, SqlxRepository, SqlxRow};
use postrider::layout::{RowLayout, RowTable};
use postrider::{Ident, Outbox};
use sqlx::{MySqlPool, PgPool, Pool, SqlitePool};
use tokio::task::JoinSet;
use uuid::Uuid;

use wallet::{Deposit, OpenWallet, Order, PlaceOrder, Transfer, Wallet};

/// Deposits that run at once. Each of them changes the same row.
const DEPOSITS: usize = 64;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().context("usage: wallet URL [eventlog [SCHEMA]]")?;
    let outbox = match arguments.next() {
        None => Outbox::new(),
        Some(_) => {
            let schema = arguments.next().unwrap_or_else(|| "eventlog".to_owned());
            Outbox::new().table(RowTable::new(RowLayout::Eventlog).in_schema(Ident::new(&schema)?))
        }
    };
    match url.split(':').next() {
        Some("sqlite") => run(SqlitePool::connect(&url).await?, outbox).await,
        Some("mysql") => run(MySqlPool::connect(&url).await?, outbox).await,
        _ => run(PgPool::connect(&url).await?, outbox).await,
    }
}

/// The executor of the service: what it writes to, what it can do, and how often it tries.
fn executor<DB: SqlxDialect>(pool: &Pool<DB>, outbox: Outbox) -> Result<Executor<Pool<DB>>>
where
    Wallet: SqlxRow<DB>,
    Order: SqlxRow<DB>,
{
    let wallets = SqlxRepository::<Wallet, _>::new(pool.clone());
    let orders = SqlxRepository::<Order, _>::new(pool.clone());
    let often = Retry::times(1_000).delay(Duration::from_millis(5));
    let executor = Executor::builder(pool.clone())
        .namespace("com.example.finance")
        .outbox(outbox)
        .action(OpenWallet)
        .action(Deposit { wallets: wallets.clone() })
        .action(PlaceOrder { wallets: wallets.clone() })
        .repository(wallets)
        .repository(orders)
        .retry(RetryOn::Stale, often)
        .retry(RetryOn::Busy, often)
        .build()?;
    Ok(executor)
}

async fn run<DB: SqlxDialect>(pool: Pool<DB>, outbox: Outbox) -> Result<()>
where
    Wallet: SqlxRow<DB>,
    Order: SqlxRow<DB>,
{
    let executor = executor(&pool, outbox)?;
    let wallet = Uuid::now_v7();
    executor.execute::<OpenWallet>(wallet).await?;
    println!("opened");

    let mut deposits = JoinSet::new();
    for _ in 0..DEPOSITS {
        let executor = executor.clone();
        deposits.spawn(async move { executor.execute::<Deposit<DB>>(Transfer { wallet, amount: 1 }).await });
    }
    let balances = deposits.join_all().await.into_iter().collect::<Result<Vec<i64>>>()?;
    println!("{} deposits, the highest balance was {}", balances.len(), balances.iter().max().unwrap_or(&0));

    executor.execute::<PlaceOrder<DB>>(Transfer { wallet, amount: 40 }).await?;
    println!("placed an order of 40");
    let refused = executor.execute::<PlaceOrder<DB>>(Transfer { wallet, amount: 40 }).await;
    println!("refused: {}", refused.err().context("the wallet has not enough money")?);

    let found = SqlxRepository::<Wallet, _>::new(pool).find(&wallet).await?;
    println!("balance {}, version {}", found.balance, found.version);
    Ok(())
}
