//! What an executor refuses before any SQL, and what it calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use postrider::action::{Action, ChangeKind, Entity, Executor, Model, Plan, SqlxRepository};
use postrider::{Code, Error, Event, Result};
use uuid::Uuid;

use crate::drivers::{Case, Driver, SqlxSqlite};
use crate::place::Place;
use crate::wallet::{Amount, MoneyDeposited, MoneySpent, Note, Open, Order, OrderPlaced, Wallet};

/// The same type in another module, as after a move.
mod moved {
    use super::*;

    #[derive(Model)]
    #[model(table = "wallets")]
    pub(crate) struct Wallet {
        pub(crate) id: Uuid,
        pub(crate) balance: i64,
        pub(crate) version: i64,
    }

    #[derive(serde::Serialize, Event)]
    #[event(model = Wallet)]
    pub(crate) struct MoneyDeposited {
        pub(crate) amount: i64,
    }

    #[derive(Action)]
    pub(crate) struct Open;

    impl Action for Open {
        type Params = Amount;
        type Output = ();
        type Error = Error;

        async fn perform(&self, plan: &mut Plan, params: &Amount) -> Result<()> {
            let wallet = Wallet { id: params.wallet, balance: params.amount, version: 1 };
            plan.add(wallet)?.event(&MoneyDeposited { amount: params.amount })?;
            Ok(())
        }
    }
}

#[tokio::test]
async fn moving_a_type_to_another_module_changes_no_name() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let wallets = SqlxRepository::<moved::Wallet, _>::new(case.driver.database());
    let executor = Executor::builder(case.driver.database()).namespace("shop").repository(wallets);
    let executor = executor.action(moved::Open).build().unwrap();
    executor.execute::<moved::Open>(Amount { wallet: Uuid::now_v7(), amount: 3 }).await.unwrap();
    let row = case.place.rows("SELECT type, aggregate_type, action FROM {events}").await.remove(0);
    assert_eq!((row[0].as_str(), row[1].as_str()), ("MoneyDeposited", "Wallet"));
    assert!(row[2].contains("\"Open\""), "{row:?}");
}

#[tokio::test]
async fn two_types_with_one_name_are_refused_when_they_are_registered() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let error = case.builder().action(Open).action(moved::Open).build().unwrap_err();
    assert_eq!(error.code(), Code::NameTwice);
    assert!(
        error.message().contains("rules::moved::Open") && error.message().contains("wallet::Open"),
        "{error}"
    );
    let wallets = SqlxRepository::<moved::Wallet, _>::new(case.driver.database());
    assert_eq!(case.builder().repository(wallets).build().unwrap_err().code(), Code::NameTwice);
}

#[tokio::test]
async fn two_types_with_one_name_are_refused_when_they_are_staged() {
    let mut plan = Plan::for_test();
    plan.add(wallet(1)).unwrap().event(&MoneyDeposited { amount: 1 }).unwrap();
    let error = plan.update(wallet(2)).unwrap().event(&moved::MoneyDeposited { amount: 1 }).unwrap_err();
    assert_eq!(error.code(), Code::NameTwice);
    let model = moved::Wallet { id: Uuid::now_v7(), balance: 0, version: 1 };
    assert_eq!(plan.add(model).unwrap_err().code(), Code::NameTwice);
    // The executor keeps the names of all plans.
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let executor = case.builder().action(Twin { with: 0 }).build().unwrap();
    executor.execute::<Twin>(0).await.unwrap();
    assert_eq!(executor.execute::<Twin>(1).await.unwrap_err().code(), Code::NameTwice);
    assert_eq!(case.place.one("SELECT COUNT(*) FROM wallets").await, "1");
}

/// Stages one of two events with the same name.
#[derive(Action)]
struct Twin {
    with: i64,
}

impl Action for Twin {
    type Params = i64;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, which: &i64) -> Result<()> {
        let staged = plan.add(wallet(self.with))?;
        match which {
            0 => staged.event(&MoneyDeposited { amount: 1 })?,
            _ => staged.event(&moved::MoneyDeposited { amount: 1 })?,
        };
        Ok(())
    }
}

fn wallet(balance: i64) -> Wallet {
    Wallet { id: Uuid::now_v7(), balance, version: 1 }
}

#[test]
fn an_attribute_fixes_a_name() {
    #[derive(Entity)]
    #[entity(name = "Purse", table = "shop.purses")]
    struct Wallet {
        #[entity(id)]
        number: u32,
        #[entity(version, column = "revision")]
        changed: i32,
        r#type: String,
    }
    use postrider::action::{Named, Table};
    assert_eq!((Wallet::NAME, Wallet::TABLE), ("Purse", ["shop", "purses"].as_slice()));
    assert_eq!(Wallet::COLUMNS, ["number", "revision", "type"]);
    assert_eq!((Wallet::ID, Wallet::VERSION), (0, 1));
    let purse = Wallet { number: 7, changed: 3, r#type: String::new() };
    assert_eq!((purse.id(), purse.version(), purse.r#type.len()), (&7, 3, 0));
}

#[test]
fn an_id_is_staged_once() {
    let mut plan = Plan::for_test();
    let once = wallet(1);
    plan.add(once.clone()).unwrap();
    let error = plan.update(once.clone()).unwrap_err();
    assert_eq!(error.code(), Code::PlanInvalid);
    assert_eq!(error.message(), format!("Wallet {} is staged twice in one plan", once.id));
    // Another type may have the same id.
    plan.add(Note { id: once.id, text: String::new(), version: 1 }).unwrap();
    assert_eq!(plan.add_all([wallet(1), once]).unwrap_err().code(), Code::PlanInvalid);
}

#[test]
fn an_event_belongs_to_its_model() {
    let mut plan = Plan::for_test();
    let order = Order { id: Uuid::now_v7(), wallet: Uuid::now_v7(), amount: 1, version: 1 };
    let error = plan.add(order.clone()).unwrap().event(&MoneySpent { amount: 1 }).unwrap_err();
    assert_eq!(error.code(), Code::PlanInvalid);
    assert_eq!(error.message(), format!("the event MoneySpent is not about Order {}", order.id));
    let mut plan = Plan::for_test();
    plan.update(wallet(1)).unwrap();
    plan.add(order.clone()).unwrap().event(&OrderPlaced { amount: 1 }).unwrap();
    let events: Vec<_> = plan.events().map(|event| event.aggregate.clone().unwrap()).collect();
    assert_eq!((events[0].kind.as_str(), events[0].id.clone()), ("Order", order.id.to_string()));
    assert_eq!(plan.rows_of::<Order>(ChangeKind::Add)[0].id, order.id);
    assert_eq!(plan.rows_of::<Wallet>(ChangeKind::Update).len(), 1);
    assert!(plan.rows_of::<Wallet>(ChangeKind::Add).is_empty());
}

#[test]
fn an_event_keeps_the_type_that_was_checked() {
    let mut plan = Plan::for_test();
    let retyped = |mut event: postrider::Event| {
        event.event_type = "OrderPlaced".to_owned();
        event
    };
    let error = plan.add(wallet(1)).unwrap().event_with(&MoneySpent { amount: 1 }, retyped).unwrap_err();
    assert_eq!(error.code(), Code::PlanInvalid);
    assert_eq!(error.message(), "the event MoneySpent was given the type \"OrderPlaced\"");
}

#[test]
fn rows_that_are_staged_together_emit_one_event_each_also_over_several_shards() {
    let mut plan = Plan::for_test();
    let rows: Vec<_> = (1..=5).map(wallet).collect();
    let ids: Vec<_> = rows.iter().map(|row| row.id.to_string()).collect();
    plan.add(wallet(0)).unwrap().event(&MoneyDeposited { amount: 0 }).unwrap();
    let staged = plan.add_all(rows).unwrap();
    staged.events(|wallet| MoneyDeposited { amount: wallet.balance }).unwrap();
    let events: Vec<_> = plan.events().skip(1).collect();
    let of: Vec<_> = events.iter().map(|event| event.aggregate.as_ref().unwrap().id.clone()).collect();
    assert_eq!(of, ids);
    let amounts: Vec<_> = events.iter().map(|event| String::from_utf8_lossy(&event.payload)).collect();
    assert_eq!(amounts, (1..=5).map(|amount| format!("{{\"amount\":{amount}}}")).collect::<Vec<_>>());
    // The last of the rows before is of the same change, and the first ones of the next call are not.
    let updated: Vec<_> = (6..=7).map(wallet).collect();
    plan.update_all(updated).unwrap().events(|wallet| MoneyDeposited { amount: wallet.balance }).unwrap();
    let last = plan.events().last().unwrap();
    assert_eq!(&last.payload[..], b"{\"amount\":7}");
    // An event of another model.
    let orders = [Order { id: Uuid::now_v7(), wallet: Uuid::now_v7(), amount: 1, version: 1 }];
    let error = plan.add_all(orders).unwrap().events(|_| MoneySpent { amount: 1 }).unwrap_err();
    assert_eq!(error.code(), Code::PlanInvalid);
}

/// Stages a wallet twice, or an event of another model, and ignores the error.
#[derive(Action)]
struct Careless;

impl Action for Careless {
    type Params = bool;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, twice: &bool) -> Result<()> {
        let row = wallet(1);
        let staged = plan.add(row.clone())?;
        if *twice {
            _ = plan.add(row);
        } else {
            _ = staged.event(&OrderPlaced { amount: 1 });
        }
        Ok(())
    }
}

#[tokio::test]
async fn an_action_that_ignores_an_error_of_its_plan_is_not_written() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let executor = case.builder().action(Careless).build().unwrap();
    for (twice, says) in
        [(true, "is staged twice in one plan"), (false, "the event order.placed is not about Wallet")]
    {
        let error = executor.execute::<Careless>(twice).await.unwrap_err();
        assert_eq!(error.code(), Code::PlanInvalid);
        assert!(error.message().starts_with("the action ignored an error of its plan: "), "{error}");
        assert!(error.message().contains(says), "{error}");
        executor.call::<Careless>(twice).plan().await.unwrap_err();
    }
    assert_eq!(case.place.one("SELECT COUNT(*) FROM wallets").await, "0");
    assert_eq!(case.place.one("SELECT COUNT(*) FROM {events}").await, "0");
}

#[tokio::test]
async fn what_is_not_registered_is_refused_before_any_sql() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let executor = Executor::builder(case.driver.database()).namespace("shop").action(Open).build().unwrap();
    let params = Amount { wallet: Uuid::now_v7(), amount: 1 };
    case.driver.database().close().await;
    let error = executor.execute::<Open>(params).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::ActionUnregistered, "there is no repository for Wallet")
    );
    let error = executor.execute::<moved::Open>(params).await.unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::ActionUnregistered, "the action Open is not registered")
    );
    assert_eq!(case.builder().action(Open).action(Open).build().unwrap_err().code(), Code::ExecutorInvalid);
}

/// Executes another action while it performs.
#[derive(Action)]
struct Outer(Mutex<Option<Executor<sqlx::SqlitePool>>>);

impl Action for Outer {
    type Params = Amount;
    type Output = ();
    type Error = Error;

    async fn perform(&self, _: &mut Plan, params: &Amount) -> Result<()> {
        let inner = self.0.lock().unwrap().clone().unwrap();
        inner.execute::<Open>(*params).await
    }
}

#[tokio::test]
async fn an_action_inside_an_action_is_an_immediate_error() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let inner = case.builder().action(Open).build().unwrap();
    let executor = case.builder().action(Outer(Mutex::new(Some(inner.clone())))).build().unwrap();
    let params = Amount { wallet: Uuid::now_v7(), amount: 1 };
    let error = executor.execute::<Outer>(params).await.unwrap_err();
    assert_eq!(error.code(), Code::ActionNested);
    assert_eq!(error.message(), "the action Open was executed inside the action Outer");
    assert_eq!(case.place.one("SELECT COUNT(*) FROM wallets").await, "0");
    // After it has ended, the same task may execute another one.
    inner.execute::<Open>(params).await.unwrap();
}

#[tokio::test]
async fn a_relay_is_woken_after_every_commit_and_only_then() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let wakes = Arc::new(AtomicUsize::new(0));
    let counted = wakes.clone();
    let executor = case.builder().wake(move || _ = counted.fetch_add(1, Ordering::Relaxed)).action(Open);
    let executor = executor.build().unwrap();
    let params = Amount { wallet: Uuid::now_v7(), amount: 1 };
    executor.execute::<Open>(params).await.unwrap();
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
    executor.execute::<Open>(params).await.unwrap_err();
    assert_eq!(wakes.load(Ordering::Relaxed), 1, "the id exists, so nothing was committed");
}

#[tokio::test]
async fn parameters_can_be_stored_without_their_secrets() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let hidden = |action: &str, mut params: serde_json::Value| {
        assert_eq!(action, "Open");
        params["amount"] = "hidden".into();
        Ok(params.to_string())
    };
    let executor = case.builder().serialize_params(hidden).action(Open).build().unwrap();
    executor.execute::<Open>(Amount { wallet: Uuid::now_v7(), amount: 4711 }).await.unwrap();
    let params = case.place.one("SELECT params FROM {actions}").await;
    assert!(params.contains("hidden") && !params.contains("4711"), "{params}");
}

#[tokio::test]
async fn a_caller_may_name_the_principal() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let executor = case.builder().principal("service").action(Open).build().unwrap();
    for principal in ["ann", "bob"] {
        let params = Amount { wallet: Uuid::now_v7(), amount: 1 };
        executor.call::<Open>(params).principal(principal).execute().await.unwrap();
    }
    executor.execute::<Open>(Amount { wallet: Uuid::now_v7(), amount: 1 }).await.unwrap();
    let rows = case.place.rows("SELECT principal FROM {actions} ORDER BY principal").await;
    assert_eq!(rows, [["ann"], ["bob"], ["service"]]);
}

#[tokio::test]
async fn a_plan_can_be_read_without_writing_it() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let executor = case.builder().action(Open).build().unwrap();
    let params = Amount { wallet: Uuid::now_v7(), amount: 9 };
    let ((), plan) = executor.call::<Open>(params).plan().await.unwrap();
    assert_eq!(plan.rows_of::<Wallet>(ChangeKind::Add)[0].balance, 9);
    assert_eq!((plan.rows()[0].entity, plan.rows()[0].id.clone()), ("Wallet", params.wallet.to_string()));
    assert_eq!(case.place.one("SELECT COUNT(*) FROM wallets").await, "0");
}

#[tokio::test]
async fn many_rows_are_one_statement_until_the_database_takes_no_more_parameters() {
    /// Adds this number of wallets.
    #[derive(Action)]
    struct Fill;

    impl Action for Fill {
        type Params = i64;
        type Output = ();
        type Error = Error;

        async fn perform(&self, plan: &mut Plan, rows: &i64) -> Result<()> {
            plan.add_all((0..*rows).map(wallet)).map(drop)
        }
    }

    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let executor = case.builder().action(Fill).build().unwrap();
    // Three columns each; SQLite accepts 32,766 parameters.
    executor.execute::<Fill>(12_000).await.unwrap();
    assert_eq!(case.place.one("SELECT COUNT(*) FROM wallets").await, "12000");
}
