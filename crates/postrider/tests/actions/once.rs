//! A call with an id is executed once, however often it is made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::action::{
    AcrossShards, Action, CommitError, Database, Executor, Plan, Retry, RetryOn, Shard, Shards,
};
use postrider::inbox::{Inbox, Once, Received};
use postrider::write::ActionRecord;
use postrider::{Code, Error, Event, Outbox, Result, Written};
use postrider_testkit::eventually;
use sqlx::SqlitePool;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::commit::{Lent, Losing};
use crate::drivers::{Case, Driver, SqlxSqlite};
use crate::place::Place;
use crate::retries::WatchedClock;
use crate::wallet::{Amount, Deposit, MoneySpent, Open, Wallet, Wallets};

/// Calls that are made at the same time.
const CALLS: usize = 8;

pub(crate) async fn a_call_with_an_id_is_executed_once_also_by_concurrent_callers<D: Driver>() {
    let Some(case) = Case::<D>::new(None).await else { return };
    let often = Retry::times(1_000).delay(Duration::from_millis(5));
    let builder = case.builder().retry(RetryOn::Stale, often).retry(RetryOn::Busy, often);
    let executor = builder.action(Open).action(Deposit::new(case.driver.wallets())).build().unwrap();
    let (wallet, inbox) = (Uuid::now_v7(), case.place.inbox());
    executor.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();
    for round in 1..=2 {
        let id = Uuid::now_v7();
        let mut calls = JoinSet::new();
        for _ in 0..CALLS {
            let (executor, inbox) = (executor.clone(), inbox.clone());
            calls.spawn(async move {
                let call = executor.call::<Deposit>(Amount { wallet, amount: 5 });
                call.execute_once(&inbox, "http", id).await.unwrap()
            });
        }
        let answers = calls.join_all().await;
        let applied = answers.iter().filter(|answer| !answer.is_duplicate()).count();
        assert_eq!(applied, 1, "{answers:?}");
        let balance = case.place.one("SELECT balance FROM wallets").await;
        assert_eq!(balance, (round * 5).to_string(), "another id is another call");
    }
    let counts = case.place.one("SELECT COUNT(*) FROM {events}").await;
    assert_eq!(counts, "2");
}

/// Refuses to spend more than there is.
#[derive(Action)]
struct Spend {
    wallets: Wallets,
}

impl Action for Spend {
    type Params = Amount;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, params: &Amount) -> Result<()> {
        let mut wallet = self.wallets.find(params.wallet).await?;
        if wallet.balance < params.amount {
            return Err(Error::new(Code::EntityMissing, "there is not enough money"));
        }
        wallet.balance -= params.amount;
        plan.update(wallet)?.event(&MoneySpent { amount: params.amount })?;
        Ok(())
    }
}

#[tokio::test]
async fn a_repeated_call_is_a_duplicate_even_if_its_own_effect_makes_the_action_fail() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let spend = Spend { wallets: case.driver.wallets() };
    let executor = case.builder().action(Open).action(spend).build().unwrap();
    let (wallet, id, inbox) = (Uuid::now_v7(), Uuid::now_v7(), Inbox::new());
    executor.execute::<Open>(Amount { wallet, amount: 7 }).await.unwrap();
    let spend = async |id| {
        executor.call::<Spend>(Amount { wallet, amount: 7 }).execute_once(&inbox, "http", id).await
    };
    assert_eq!(spend(id).await.unwrap(), Once::Applied(()));
    assert_eq!(spend(id).await.unwrap(), Once::Duplicate);
    let other = spend(Uuid::now_v7()).await.unwrap_err();
    assert_eq!(other.message(), "there is not enough money");
    // The search for an earlier execution leaves no row.
    assert_eq!(case.place.one("SELECT COUNT(*) FROM postrider_inbox").await, "1");
}

#[tokio::test]
async fn a_call_whose_commit_was_lost_can_be_made_again() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let (wallet, id, inbox) = (Uuid::now_v7(), Uuid::now_v7(), Inbox::new());
    let open = case.builder().action(Open).action(Deposit::new(case.driver.wallets())).build().unwrap();
    open.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();
    let wallets = postrider::action::SqlxRepository::<Wallet, _>::new(case.driver.database());
    let losing = Executor::builder(Losing(case.driver.database()))
        .namespace("shop")
        .repository::<Wallet, _>(Lent(wallets))
        .action(Deposit::new(case.driver.wallets()))
        .build()
        .unwrap();
    let call = losing.call::<Deposit>(Amount { wallet, amount: 5 });
    let lost = call.execute_once(&inbox, "http", id).await.unwrap_err();
    assert_eq!(lost.code(), Code::ActionOutcomeUnknown);
    let call = open.call::<Deposit>(Amount { wallet, amount: 5 });
    assert_eq!(call.execute_once(&inbox, "http", id).await.unwrap(), Once::Duplicate);
    assert_eq!(case.place.one("SELECT balance FROM wallets").await, "5");
}

#[tokio::test]
async fn a_call_that_is_executed_once_changes_one_shard() {
    use crate::shards::{Account, OpenAll};
    let cases = [Case::<SqlxSqlite>::new(None).await.unwrap(), Case::<SqlxSqlite>::new(None).await.unwrap()];
    let other = Shard::new(1, 0).unwrap();
    let shards = Shards::new(cases[0].driver.database()).with(other, cases[1].driver.database());
    let executor = Executor::sharded(shards.clone())
        .namespace("shop")
        .repository(postrider::action::SqlxRepository::<Account, _>::sharded(shards))
        .action(OpenAll)
        .build()
        .unwrap();
    let id = Uuid::now_v7();
    let both = vec![(Shard::DEFAULT.new_id(), 1), (other.new_id(), 2)];
    let call = executor.call::<OpenAll>(both).across_shards(AcrossShards::Copies);
    let refused = call.execute_once(&Inbox::new(), "http", id).await.unwrap_err();
    assert_eq!(refused.code(), Code::ShardsMixed);
    // The row is in the database of the shard.
    let one = vec![(other.new_id(), 2)];
    let first = executor.call::<OpenAll>(one.clone()).execute_once(&Inbox::new(), "http", id).await.unwrap();
    assert_eq!(first, Once::Applied(()));
    let inboxes = "SELECT COUNT(*) FROM postrider_inbox";
    assert_eq!([cases[0].place.one(inboxes).await, cases[1].place.one(inboxes).await], ["0", "1"]);
    let again = executor.call::<OpenAll>(one).execute_once(&Inbox::new(), "http", id).await.unwrap();
    assert_eq!(again, Once::Duplicate);
    // A repeated call that finds nothing left to do leads to no shard.
    let nothing = executor.call::<OpenAll>(Vec::new()).execute_once(&Inbox::new(), "http", id).await.unwrap();
    assert_eq!(nothing, Once::Duplicate);
    assert_eq!([cases[0].place.one(inboxes).await, cases[1].place.one(inboxes).await], ["0", "1"]);
}

/// Transactions of [`Answers`] that were rolled back.
static ROLLED_BACK: AtomicUsize = AtomicUsize::new(0);

/// A database, or one that never answers.
enum Answers {
    Always(SqlitePool),
    Never,
}

impl Database for Answers {
    type Transaction = <SqlitePool as Database>::Transaction;
    type Error = <SqlitePool as Database>::Error;

    async fn begin(&self) -> Result<Self::Transaction> {
        match self {
            Self::Always(pool) => Database::begin(pool).await,
            Self::Never => std::future::pending().await,
        }
    }

    async fn commit(tx: Self::Transaction) -> Result<(), CommitError> {
        <SqlitePool as Database>::commit(tx).await
    }

    async fn rollback(tx: Self::Transaction) {
        <SqlitePool as Database>::rollback(tx).await;
        ROLLED_BACK.fetch_add(1, Ordering::Relaxed);
    }

    async fn write_events(
        tx: &mut Self::Transaction,
        outbox: &Outbox,
        events: Vec<Event>,
    ) -> Result<Vec<Written>> {
        <SqlitePool as Database>::write_events(tx, outbox, events).await
    }

    async fn record_action(tx: &mut Self::Transaction, outbox: &Outbox, record: ActionRecord) -> Result<()> {
        <SqlitePool as Database>::record_action(tx, outbox, record).await
    }

    async fn receive(tx: &mut Self::Transaction, inbox: &Inbox, group: &str, id: Uuid) -> Result<Received> {
        <SqlitePool as Database>::receive(tx, inbox, group, id).await
    }

    fn failed(error: Self::Error) -> Error {
        <SqlitePool as Database>::failed(error)
    }
}

/// Always returns an error of its own.
#[derive(Action)]
struct Refuse;

impl Action for Refuse {
    type Params = ();
    type Output = ();
    type Error = Error;

    async fn perform(&self, _: &mut Plan, (): &()) -> Result<()> {
        Err(Error::new(Code::EntityMissing, "there is not enough money"))
    }
}

#[tokio::test]
async fn shards_that_do_not_answer_are_asked_together_and_named_after_five_seconds() {
    let cases = [Case::<SqlxSqlite>::new(None).await.unwrap(), Case::<SqlxSqlite>::new(None).await.unwrap()];
    let shard = |member| Shard::new(1, member).unwrap();
    let databases = Shards::new(Answers::Always(cases[0].driver.database()))
        .with(shard(0), Answers::Never)
        .with(shard(1), Answers::Never)
        .with(shard(2), Answers::Always(cases[1].driver.database()));
    let clock = WatchedClock::new();
    let executor =
        Executor::sharded(databases).namespace("shop").clock(clock.clone()).action(Refuse).build().unwrap();
    let (id, inbox) = (Uuid::now_v7(), Inbox::new());
    let call = {
        let (executor, inbox) = (executor.clone(), inbox.clone());
        tokio::spawn(async move { executor.call::<Refuse>(()).execute_once(&inbox, "http", id).await })
    };
    assert_eq!(clock.waits().await, Duration::from_secs(5));
    eventually("two shards have answered", async || ROLLED_BACK.load(Ordering::Relaxed) == 2).await;
    clock.manual.advance(Duration::from_secs(5));
    let unknown = call.await.unwrap().unwrap_err();
    assert_eq!(unknown.code(), Code::ActionOutcomeUnknown, "{unknown}");
    let text = unknown.message();
    assert!(
        text.contains(&format!("{id}")) && text.contains("shard 1.0: ") && text.contains("shard 1.1: "),
        "{text}"
    );
    assert!(!text.contains("0.0") && !text.contains("1.2"), "{text}");

    // An earlier execution is found without waiting for them.
    let other =
        Executor::builder(cases[1].driver.database()).namespace("shop").action(Nothing).build().unwrap();
    let first = other.call::<Nothing>(()).execute_once(&inbox, "http", id).await.unwrap();
    assert_eq!(first, Once::Applied(()));
    let again = executor.call::<Refuse>(()).execute_once(&inbox, "http", id).await.unwrap();
    assert_eq!(again, Once::Duplicate);
}

/// Stages nothing.
#[derive(Action)]
struct Nothing;

impl Action for Nothing {
    type Params = ();
    type Output = ();
    type Error = Error;

    async fn perform(&self, _: &mut Plan, (): &()) -> Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn an_action_has_the_id_that_its_caller_stored_before() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let deposit = Deposit::new(case.driver.wallets());
    let executor = case.builder().action(Open).action(deposit).build().unwrap();
    let (wallet, id, inbox) = (Uuid::now_v7(), Uuid::now_v7(), Inbox::new());
    executor.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();
    for _ in 0..3 {
        let call = executor.call::<Deposit>(Amount { wallet, amount: 5 }).action_id(id);
        call.execute_once(&inbox, "orders", id).await.unwrap();
    }
    let actions = case.place.rows("SELECT action FROM {events}").await;
    assert_eq!(actions.len(), 1);
    assert!(actions[0][0].contains(&id.to_string()), "{actions:?}");
    let (_, plan) =
        executor.call::<Deposit>(Amount { wallet, amount: 1 }).action_id(id).plan().await.unwrap();
    assert_eq!(plan.action_id(), id);
}
