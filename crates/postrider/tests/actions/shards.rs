//! Actions over several databases.

use postrider::action::{
    AcrossShards, Action, Executor, Model, Plan, Shard, Shards, SqlxDialect, SqlxRepository, SqlxRow,
};
use postrider::layout::RowLayout;
use postrider::{Code, Error, Event, Result};
use serde::Serialize;
use sqlx::Pool;
use uuid::Uuid;

use crate::commit::{Lent, Losing};
use crate::drivers::{Case, Driver, SqlxPostgres, SqlxSqlite};
use crate::place::{Layout, Place};

/// A wallet whose id carries its shard.
#[derive(Debug, Clone, Model)]
#[model(name = "Wallet", table = "wallets", sharded)]
pub(crate) struct Account {
    id: Uuid,
    balance: i64,
    version: i64,
}

#[derive(Serialize, Event)]
#[event(model = Account)]
struct Opened {
    balance: i64,
}

/// Adds these accounts, each with an event.
#[derive(Action)]
pub(crate) struct OpenAll;

impl Action for OpenAll {
    type Params = Vec<(Uuid, i64)>;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, accounts: &Vec<(Uuid, i64)>) -> Result<()> {
        for (id, balance) in accounts {
            let account = Account { id: *id, balance: *balance, version: 1 };
            plan.add(account)?.event(&Opened { balance: *balance })?;
        }
        Ok(())
    }
}

/// Adds 100 to the balance of an account, wherever it is.
#[derive(Action)]
struct Deposit<DB: sqlx::Database> {
    accounts: SqlxRepository<Account, DB>,
}

impl<DB: SqlxDialect> Action for Deposit<DB>
where
    Account: SqlxRow<DB>,
{
    type Params = Uuid;
    type Output = i64;
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, id: &Uuid) -> Result<i64> {
        let mut account = self.accounts.find(id).await?;
        account.balance += 100;
        let balance = account.balance;
        plan.update(account)?;
        Ok(balance)
    }
}

/// The default database, and those of the shards 1.0 and 1.1.
async fn three<D, DB>() -> Option<([Case<D>; 3], Executor<Pool<DB>>)>
where
    D: Driver<Database = Pool<DB>>,
    DB: SqlxDialect,
    Account: SqlxRow<DB>,
{
    three_on(None).await
}

async fn three_on<D, DB>(layout: Layout) -> Option<([Case<D>; 3], Executor<Pool<DB>>)>
where
    D: Driver<Database = Pool<DB>>,
    DB: SqlxDialect,
    Account: SqlxRow<DB>,
{
    let cases = [Case::<D>::new(layout).await?, Case::<D>::new(layout).await?, Case::<D>::new(layout).await?];
    let shards = Shards::new(cases[0].driver.database());
    let accounts = SqlxRepository::<Account, _>::sharded(shards.clone());
    let executor = Executor::sharded(shards)
        .namespace("shop")
        .outbox(cases[0].place.outbox())
        .shard(shard(1, 0), cases[1].driver.database())
        .repository(accounts.clone())
        .action(OpenAll)
        .action(Deposit { accounts })
        .build()
        .unwrap();
    // While it runs, as if it were new.
    executor.add_shard(shard(1, 1), cases[2].driver.database());
    Some((cases, executor))
}

fn shard(group: u8, member: u8) -> Shard {
    Shard::new(group, member).unwrap()
}

async fn counts<D: Driver>(cases: &[Case<D>; 3], sql: &str) -> [String; 3] {
    let [first, second, third] = cases;
    [first.place.one(sql).await, second.place.one(sql).await, third.place.one(sql).await]
}

#[tokio::test]
async fn a_row_is_written_to_the_shard_of_its_id_or_to_the_default() {
    let (cases, executor) = three::<SqlxSqlite, _>().await.unwrap();
    for (group, member, balance) in [(1, 0, 10), (1, 1, 11), (7, 3, 73)] {
        executor.execute::<OpenAll>(vec![(shard(group, member).new_id(), balance)]).await.unwrap();
    }
    assert_eq!(counts(&cases, "SELECT balance FROM wallets").await, ["73", "10", "11"]);
    assert_eq!(counts(&cases, "SELECT COUNT(*) FROM {events}").await, ["1", "1", "1"]);
}

#[tokio::test]
async fn a_row_is_read_from_the_shard_of_its_id_or_from_the_default() {
    let (cases, executor) = three::<SqlxSqlite, _>().await.unwrap();
    for (group, member, balance) in [(1, 0, 10), (1, 1, 11), (7, 3, 73)] {
        let id = shard(group, member).new_id();
        executor.execute::<OpenAll>(vec![(id, balance)]).await.unwrap();
        assert_eq!(executor.execute::<Deposit<sqlx::Sqlite>>(id).await.unwrap(), balance + 100);
    }
    assert_eq!(counts(&cases, "SELECT balance FROM wallets").await, ["173", "110", "111"]);
    let missing = executor.execute::<Deposit<sqlx::Sqlite>>(shard(1, 1).new_id()).await.unwrap_err();
    assert_eq!(missing.code(), Code::EntityMissing);
}

#[tokio::test]
async fn a_plan_over_several_shards_is_refused_unless_the_call_allows_it() {
    let (cases, executor) = three::<SqlxSqlite, _>().await.unwrap();
    let both = vec![(shard(1, 0).new_id(), 1), (shard(1, 1).new_id(), 2)];
    let error = executor.execute::<OpenAll>(both.clone()).await.unwrap_err();
    assert_eq!(error.code(), Code::ShardsMixed);
    assert_eq!(error.message(), "the action changes rows of the shards 1.0, 1.1");
    assert_eq!(counts(&cases, "SELECT COUNT(*) FROM wallets").await, ["0", "0", "0"]);
    // Two ids of unregistered shards are both on the default: that is one database.
    let default = vec![(shard(8, 0).new_id(), 1), (shard(9, 0).new_id(), 2)];
    executor.execute::<OpenAll>(default).await.unwrap();

    executor.call::<OpenAll>(both).across_shards(AcrossShards::Copies).execute().await.unwrap();
    assert_eq!(counts(&cases, "SELECT SUM(balance) FROM wallets").await, ["3", "1", "2"]);
    let ids = "SELECT group_concat(id || substr(action, 1, 60), ' ') FROM (SELECT id, action FROM {events} ORDER BY id)";
    let [_, first, second] = counts(&cases, ids).await;
    assert_eq!(first, second, "copies have the same event ids and the same action");
    assert_eq!(counts(&cases, "SELECT COUNT(*) FROM {events}").await, ["2", "2", "2"]);
}

/// On the default layout and on `eventlog`. Not on MySQL and MariaDB: shards there are servers, whose outboxes have one name,
/// and the tests have one of each.
async fn every_shard_gets_its_share_of_the_events<D, DB>()
where
    D: Driver<Database = Pool<DB>>,
    DB: SqlxDialect,
    Account: SqlxRow<DB>,
{
    for layout in [None, Some(RowLayout::Eventlog)] {
        if !D::Place::LAYOUTS.contains(&layout) {
            continue;
        }
        let Some((cases, executor)) = three_on::<D, DB>(layout).await else { return };
        let both = || vec![(shard(1, 0).new_id(), 1), (shard(1, 1).new_id(), 2)];
        executor.call::<OpenAll>(both()).across_shards(AcrossShards::Copies).execute().await.unwrap();
        assert_eq!(counts(&cases, "SELECT COUNT(*) FROM wallets").await, ["0", "1", "1"], "{layout:?}");
        let ids = async |case: &Case<D>| case.place.rows("SELECT id FROM {events} ORDER BY id").await;
        let (first, second) = (ids(&cases[1]).await, ids(&cases[2]).await);
        assert_eq!((first.len(), &first), (2, &second), "{layout:?}: copies have the same ids");
        executor.call::<OpenAll>(both()).across_shards(AcrossShards::Own).execute().await.unwrap();
        assert_eq!(counts(&cases, "SELECT COUNT(*) FROM {events}").await, ["0", "3", "3"], "{layout:?}");
        let own = (ids(&cases[1]).await, ids(&cases[2]).await);
        assert_ne!(own.0, own.1, "{layout:?}: each has its own event");
    }
}

#[tokio::test]
async fn every_shard_gets_its_share_of_the_events_on_sqlite() {
    every_shard_gets_its_share_of_the_events::<SqlxSqlite, _>().await;
}

#[tokio::test]
async fn every_shard_gets_its_share_of_the_events_on_postgres() {
    every_shard_gets_its_share_of_the_events::<SqlxPostgres, _>().await;
}

#[tokio::test]
async fn each_shard_may_get_its_own_events_only() {
    let (cases, executor) = three::<SqlxSqlite, _>().await.unwrap();
    let both = vec![(shard(1, 0).new_id(), 1), (shard(1, 1).new_id(), 2), (shard(1, 1).new_id(), 3)];
    executor.call::<OpenAll>(both).across_shards(AcrossShards::Own).execute().await.unwrap();
    assert_eq!(counts(&cases, "SELECT COUNT(*) FROM {events}").await, ["0", "1", "2"]);
    let actions = counts(&cases, "SELECT MIN(json_extract(action, '$.id')) FROM {events}").await;
    assert_eq!(actions[1], actions[2]);
}

#[tokio::test]
async fn a_failure_before_the_first_commit_leaves_nothing_on_any_shard() {
    let (cases, executor) = three::<SqlxSqlite, _>().await.unwrap();
    let taken = shard(1, 1).new_id();
    executor.execute::<OpenAll>(vec![(taken, 1)]).await.unwrap();
    let both = vec![(shard(1, 0).new_id(), 1), (taken, 2)];
    let error =
        executor.call::<OpenAll>(both).across_shards(AcrossShards::Copies).execute().await.unwrap_err();
    assert_eq!(error.code(), Code::StoreFailed, "{error}");
    assert_eq!(counts(&cases, "SELECT COUNT(*) FROM wallets").await, ["0", "0", "1"]);
}

/// A deferred constraint fails at the COMMIT of the second shard.
#[tokio::test]
async fn a_commit_that_fails_after_another_one_is_reported_shard_by_shard() {
    let Some((cases, executor)) = three::<SqlxPostgres, _>().await else { return };
    let constraint = "ALTER TABLE wallets ADD CONSTRAINT one UNIQUE (balance) DEFERRABLE INITIALLY DEFERRED;
                      INSERT INTO wallets VALUES (gen_random_uuid(), 7, 1)";
    cases[1].place.rows(constraint).await;
    let all = vec![(Shard::DEFAULT.new_id(), 7), (shard(1, 0).new_id(), 7), (shard(1, 1).new_id(), 7)];
    let error =
        executor.call::<OpenAll>(all).across_shards(AcrossShards::Copies).execute().await.unwrap_err();
    assert_eq!(error.code(), Code::ShardsDiverged);
    let report = "committed on shards 0.0; shard 1.0 refused the commit; rolled back on shards 1.1";
    assert!(error.message().ends_with(report), "{error}");
    assert_eq!(counts(&cases, "SELECT COUNT(*) FROM wallets").await, ["1", "1", "0"]);
    assert_eq!(counts(&cases, "SELECT COUNT(*) FROM {events}").await, ["3", "0", "0"]);
}

#[tokio::test]
async fn an_unknown_outcome_of_the_first_of_several_shards_is_reported_shard_by_shard() {
    let cases = [Case::<SqlxSqlite>::new(None).await.unwrap(), Case::<SqlxSqlite>::new(None).await.unwrap()];
    let accounts = SqlxRepository::<Account, _>::new(cases[0].driver.database());
    let executor = Executor::builder(Losing(cases[0].driver.database()))
        .namespace("shop")
        .outbox(cases[0].place.outbox())
        .shard(shard(1, 0), Losing(cases[1].driver.database()))
        .repository::<Account, _>(Lent(accounts))
        .action(OpenAll)
        .build()
        .unwrap();
    let both = vec![(Shard::DEFAULT.new_id(), 7), (shard(1, 0).new_id(), 7)];
    let error =
        executor.call::<OpenAll>(both).across_shards(AcrossShards::Copies).execute().await.unwrap_err();
    assert_eq!(error.code(), Code::ShardsDiverged, "{error}");
    assert!(error.message().ends_with("rolled back on shards 1.0"), "{error}");
    assert_eq!(cases[1].place.one("SELECT COUNT(*) FROM wallets").await, "0");
}
