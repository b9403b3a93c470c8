//! Actions against a database in memory, and against a real one. The examples of docs/src/testing.md.

use postrider::action::{Action, ChangeKind, Executor, Model, Plan, Retry, RetryOn, SqlxRepository};
use postrider::{Code, Error, Event, Result};
use postrider_testkit::{Emitted, Expected, MemoryDatabase, MemoryRepository, TestOutbox};
use serde_json::json;
use uuid::Uuid;

#[derive(Debug, Clone, PartialEq, Model)]
#[model(table = "wallets")]
struct Wallet {
    id: Uuid,
    balance: i64,
    version: i64,
}

#[derive(serde::Serialize, Event)]
#[event(model = Wallet)]
struct MoneyDeposited {
    amount: i64,
}

/// What the actions of the application read with.
trait Wallets: Send + Sync + 'static {
    fn find(&self, id: &Uuid) -> impl Future<Output = Result<Wallet>> + Send;
}

impl Wallets for SqlxRepository<Wallet, sqlx::Sqlite> {
    async fn find(&self, id: &Uuid) -> Result<Wallet> {
        self.find(id).await
    }
}

impl Wallets for MemoryRepository<Wallet> {
    async fn find(&self, id: &Uuid) -> Result<Wallet> {
        self.find(id)
    }
}

#[derive(Action)]
struct Deposit<W> {
    wallets: W,
}

impl<W: Wallets> Action for Deposit<W> {
    type Params = (Uuid, i64);
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, (id, amount): &(Uuid, i64)) -> Result<()> {
        let mut wallet = self.wallets.find(id).await?;
        wallet.balance += amount;
        plan.update(wallet)?.event(&MoneyDeposited { amount: *amount })?;
        Ok(())
    }
}

#[tokio::test]
async fn a_deposit_stages_the_new_balance_and_an_event() {
    let wallets = MemoryDatabase::new().repository::<Wallet>();
    let id = Uuid::now_v7();
    wallets.put(Wallet { id, balance: 10, version: 3 });

    let mut plan = Plan::for_test();
    Deposit { wallets }.perform(&mut plan, &(id, 5)).await.unwrap();
    assert_eq!(plan.rows_of::<Wallet>(ChangeKind::Update), [&Wallet { id, balance: 15, version: 3 }]);
    Emitted::planned(&plan)
        .assert(&[Expected::new("MoneyDeposited").aggregate("Wallet", id).payload(json!({"amount": 5}))]);
}

#[tokio::test]
async fn an_executor_in_memory_writes_rows_and_events() {
    let database = MemoryDatabase::new();
    let wallets = database.repository::<Wallet>();
    let id = Uuid::now_v7();
    wallets.put(Wallet { id, balance: 10, version: 3 });
    let executor = Executor::builder(database.clone())
        .namespace("com.example.finance")
        .repository(wallets.clone())
        .action(Deposit { wallets: wallets.clone() })
        .build()
        .unwrap();

    executor.execute::<Deposit<MemoryRepository<Wallet>>>((id, 5)).await.unwrap();
    assert_eq!(wallets.all(), [Wallet { id, balance: 15, version: 4 }]);
    database.emitted().assert(&[Expected::new("MoneyDeposited").payload(json!({"amount": 5}))]);
}

/// Opens a wallet, and lets another program change a second one in between.
#[derive(Action)]
struct Raced(MemoryRepository<Wallet>);

impl Action for Raced {
    type Params = Uuid;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, id: &Uuid) -> Result<()> {
        plan.add(Wallet { id: Uuid::now_v7(), balance: 0, version: 1 })?;
        let wallet = self.0.find(id)?;
        self.0.put(Wallet { version: wallet.version + 1, ..wallet.clone() });
        plan.update(wallet)?.event(&MoneyDeposited { amount: 1 })?;
        Ok(())
    }
}

#[tokio::test]
async fn the_database_in_memory_refuses_stale_rows_and_ids_that_exist_and_rolls_back() {
    let database = MemoryDatabase::new();
    let wallets = database.repository::<Wallet>();
    let id = Uuid::now_v7();
    wallets.put(Wallet { id, balance: 10, version: 1 });
    let executor = Executor::builder(database.clone())
        .namespace("shop")
        .retry(RetryOn::Stale, Retry::NEVER)
        .repository(wallets.clone())
        .action(Raced(wallets.clone()))
        .action(Reopen)
        .build()
        .unwrap();
    assert_eq!(executor.execute::<Raced>(id).await.unwrap_err().code(), Code::ActionStale);
    let error = executor.execute::<Reopen>(id).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::StoreFailed, "Wallet could not be inserted"));
    assert_eq!(wallets.all(), [Wallet { id, balance: 10, version: 2 }]);
    database.emitted().assert_none();
    assert!(database.actions().is_empty());
    let other = Uuid::now_v7();
    executor.execute::<Reopen>(other).await.unwrap();
    assert_eq!(database.actions()[0].action.name, "Reopen");
    assert_eq!(wallets.find(&Uuid::now_v7()).unwrap_err().code(), Code::EntityMissing);
}

/// Adds a wallet with an id of the caller's.
#[derive(Action)]
struct Reopen;

impl Action for Reopen {
    type Params = Uuid;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, id: &Uuid) -> Result<()> {
        plan.add(Wallet { id: *id, balance: 0, version: 1 })?;
        Ok(())
    }
}

#[tokio::test]
async fn an_action_is_tested_against_a_real_file() {
    let outbox = TestOutbox::new(); // a temporary SQLite file with the tables of Postrider
    let db = outbox.connect();
    db.execute_batch("CREATE TABLE wallets (id BLOB PRIMARY KEY, balance INTEGER, version INTEGER)").unwrap();
    let id = Uuid::now_v7();
    db.execute("INSERT INTO wallets VALUES (?, 10, 1)", [id.as_bytes().as_slice()]).unwrap();

    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}", outbox.path().display())).await.unwrap();
    let wallets = SqlxRepository::<Wallet, _>::new(pool.clone());
    let builder = Executor::builder(pool).namespace("shop").repository(wallets.clone());
    let executor = builder.action(Deposit { wallets }).build().unwrap();
    executor.execute::<Deposit<SqlxRepository<Wallet, sqlx::Sqlite>>>((id, 5)).await.unwrap();
    assert_eq!(outbox.count("SELECT balance FROM wallets"), 15);
    Emitted::in_sqlite(&db).assert(&[Expected::new("MoneyDeposited").aggregate("Wallet", id)]);
}
