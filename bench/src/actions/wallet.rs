//! A deposit: as an action, and as the same statements by hand.

use postrider::action::{Action, Executor, Model, Plan, SqlxDialect, SqlxRepository, SqlxRow};
use postrider::{ActionContext, BoxFuture, Event, IntoEvent, Outbox};
use serde::Serialize;
use sqlx::{Pool, Row};
use uuid::Uuid;

use crate::Error;

const NAMESPACE: &str = "com.example.finance";

#[derive(Debug, Clone, Model)]
#[model(table = "wallets")]
pub(super) struct Wallet {
    id: Uuid,
    balance: i64,
    version: i64,
}

#[derive(Serialize, Event)]
#[event(model = Wallet)]
struct MoneyDeposited {
    amount: i64,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Amount {
    wallet: Uuid,
    amount: i64,
}

#[derive(Action)]
struct Deposit<DB: sqlx::Database> {
    wallets: SqlxRepository<Wallet, DB>,
}

impl<DB: SqlxDialect> Action for Deposit<DB>
where
    Wallet: SqlxRow<DB>,
{
    type Params = Amount;
    type Output = i64;
    type Error = postrider::Error;

    async fn perform(&self, plan: &mut Plan, params: &Amount) -> postrider::Result<i64> {
        let mut wallet = self.wallets.find(&params.wallet).await?;
        wallet.balance += params.amount;
        let balance = wallet.balance;
        plan.update(wallet)?.event(&MoneyDeposited { amount: params.amount })?;
        Ok(balance)
    }
}

/// How a deposit is made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Contender {
    ByHand,
    Execute,
}

impl Contender {
    pub(super) const ALL: [Self; 2] = [Self::ByHand, Self::Execute];
}

/// A wallet, and both ways to put money into it.
pub(super) struct Bank<DB: SqlxDialect> {
    pool: Pool<DB>,
    outbox: Outbox,
    executor: Executor<Pool<DB>>,
    wallet: Uuid,
}

/// The statements of a deposit on a database.
pub(super) trait ByHand: SqlxDialect {
    /// A new wallet.
    fn open(pool: &Pool<Self>, wallet: Uuid) -> BoxFuture<'_, Result<(), Error>>;

    /// SELECT, BEGIN, UPDATE, the INSERT of the event, COMMIT: as a careful program writes them.
    fn deposit<'a>(
        pool: &'a Pool<Self>,
        outbox: &'a Outbox,
        params: &'a Amount,
    ) -> BoxFuture<'a, Result<(), Error>>;
}

impl<DB: ByHand> Bank<DB>
where
    Wallet: SqlxRow<DB>,
{
    pub(super) async fn open(pool: Pool<DB>, outbox: Outbox) -> Result<Self, Error> {
        let wallet = Uuid::now_v7();
        DB::open(&pool, wallet).await?;
        let wallets = SqlxRepository::<Wallet, _>::new(pool.clone());
        let executor = Executor::builder(pool.clone())
            .namespace(NAMESPACE)
            .outbox(outbox.clone())
            .action(Deposit { wallets: wallets.clone() })
            .repository(wallets)
            .build()?;
        Ok(Self { pool, outbox, executor, wallet })
    }

    pub(super) async fn deposit(&self, contender: Contender, times: u64) -> Result<(), Error> {
        for _ in 0..times {
            let params = Amount { wallet: self.wallet, amount: 1 };
            match contender {
                Contender::ByHand => DB::deposit(&self.pool, &self.outbox, &params).await?,
                Contender::Execute => _ = self.executor.execute::<Deposit<DB>>(params).await?,
            }
        }
        Ok(())
    }
}

/// The event as the executor writes it.
fn event_of(params: &Amount) -> Result<Event, Error> {
    let action = ActionContext::new("Deposit", serde_json::to_string(params)?);
    let event = (&MoneyDeposited { amount: params.amount }).into_event()?;
    let event = event.with_aggregate("Wallet", params.wallet.to_string());
    Ok(event.with_action(action).with_namespace(NAMESPACE))
}

macro_rules! by_hand {
    ($database:ty, $insert:literal, $select:literal, $update:literal, $($begin:tt)+) => {
        impl ByHand for $database {
            fn open(pool: &Pool<Self>, wallet: Uuid) -> BoxFuture<'_, Result<(), Error>> {
                Box::pin(async move {
                    sqlx::query($insert).bind(wallet).execute(pool).await?;
                    Ok(())
                })
            }

            fn deposit<'a>(
                pool: &'a Pool<Self>,
                outbox: &'a Outbox,
                params: &'a Amount,
            ) -> BoxFuture<'a, Result<(), Error>> {
                Box::pin(async move {
                    let row = sqlx::query($select).bind(params.wallet).fetch_one(pool).await?;
                    let (balance, version): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
                    let mut tx = pool.$($begin)+.await?;
                    let update = sqlx::query($update).bind(balance + params.amount);
                    let updated = update.bind(params.wallet).bind(version).execute(&mut *tx).await?;
                    if updated.rows_affected() != 1 {
                        return Err("another program changes the wallets of this benchmark".into());
                    }
                    outbox.write(&mut tx, event_of(params)?).await?;
                    Ok(tx.commit().await?)
                })
            }
        }
    };
}

by_hand!(
    sqlx::Postgres,
    "INSERT INTO wallets VALUES ($1, 0, 1)",
    "SELECT id, balance, version FROM wallets WHERE id = $1",
    "UPDATE wallets SET balance = $1, version = version + 1 WHERE id = $2 AND version = $3",
    begin()
);
by_hand!(
    sqlx::MySql,
    "INSERT INTO wallets VALUES (?, 0, 1)",
    "SELECT id, balance, version FROM wallets WHERE id = ?",
    "UPDATE wallets SET balance = ?, version = version + 1 WHERE id = ? AND version = ?",
    begin()
);
// A deferred transaction of SQLite can fail when it begins to write.
by_hand!(
    sqlx::Sqlite,
    "INSERT INTO wallets VALUES (?, 0, 1)",
    "SELECT id, balance, version FROM wallets WHERE id = ?",
    "UPDATE wallets SET balance = ?, version = version + 1 WHERE id = ? AND version = ?",
    begin_with("BEGIN IMMEDIATE")
);
