//! Actions that panic, that stage too much, and whose texts come from attackers.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use postrider::action::{Action, Database, EventPersister, Model, Performed, Plan, SqlxRepository};
use postrider::layout::RowLayout;
use postrider::{BoxFuture, Code, Error, Event, Limits, Result};
use serde::Serialize;
use uuid::Uuid;

use crate::drivers::{Case, Driver, SqlxPostgres, SqlxSqlite};
use crate::place::Place;
use crate::wallet::{Amount, MoneyDeposited, Note, Open, Wallet};

/// Panics in the transaction of an action, after its rows were written.
struct Panicking;

impl<D: Database> EventPersister<D> for Panicking {
    fn persist<'a>(&'a self, _: &'a mut D::Transaction, _: &'a Performed) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { panic!("the test wants it") })
    }
}

/// Panics while it stages.
#[derive(Action)]
struct Panics;

impl Action for Panics {
    type Params = Amount;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, params: &Amount) -> Result<()> {
        plan.add(Wallet { id: params.wallet, balance: params.amount, version: 1 })?;
        panic!("the test wants it")
    }
}

/// More often than a pool has connections.
const PANICS: usize = 20;

pub(crate) async fn a_panic_in_an_action_writes_nothing_and_leaves_the_connections_usable<D: Driver>() {
    let Some(case) = Case::<D>::new(None).await else { return };
    let in_perform = case.builder().action(Panics).build().unwrap();
    let in_transaction = case.builder().persister(Panicking).action(Open).build().unwrap();
    let of = |amount| Amount { wallet: Uuid::now_v7(), amount };
    for _ in 0..PANICS {
        let panic = AssertUnwindSafe(in_perform.execute::<Panics>(of(1))).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the test wants it"));
        let panic = AssertUnwindSafe(in_transaction.execute::<Open>(of(1))).catch_unwind().await.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the test wants it"), "the caller gets the panic itself");
    }
    let executor = case.builder().action(Open).build().unwrap();
    for _ in 0..PANICS {
        executor.execute::<Open>(of(2)).await.unwrap();
    }
    let wallets = case.place.rows("SELECT COUNT(*), MIN(balance), MAX(balance) FROM wallets").await;
    assert_eq!(wallets, [[PANICS.to_string(), "2".to_owned(), "2".to_owned()]]);
}

/// A text from outside, in every place that takes one.
#[derive(Debug, Clone, Serialize)]
struct Texts {
    text: String,
    #[serde(rename = "in 'the' \"name\"")]
    named: String,
}

#[derive(Debug, Serialize, Event)]
#[event(model = Wallet)]
struct Annotated {
    text: String,
}

/// Adds a wallet with an event, and a note.
#[derive(Action)]
#[action(name = "Robert'); DROP TABLE wallets; -- \"\\")]
struct Annotate {
    /// The layout has columns for topics.
    topic: Option<&'static str>,
}

impl Action for Annotate {
    type Params = Texts;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, params: &Texts) -> Result<()> {
        let wallet = Wallet { id: Uuid::now_v7(), balance: 1, version: 1 };
        let annotated = Annotated { text: params.text.clone() };
        plan.add(wallet)?.event_with(&annotated, |event| match self.topic {
            Some(topic) => event.with_topic(topic),
            None => event,
        })?;
        // The column takes 255 characters.
        let text: String = params.named.chars().take(255).collect();
        plan.add(Note { id: Uuid::now_v7(), text, version: 1 })?;
        Ok(())
    }
}

fn texts() -> Vec<String> {
    vec![
        "'; DROP TABLE wallets; --".into(),
        "\" \\ \\' \\\" ` ? ?1 $1 :a %s {events} /* -- \n\r\t\u{8}\u{1b}".into(),
        "\u{202e}\u{feff}é😀\u{10ffff}".into(),
        "nul\0nul".into(),
        "long ".repeat(20_000),
        "{\"a\":\"\\u0000\"}".into(),
    ]
}

pub(crate) async fn texts_of_attackers_are_stored_as_they_are_or_refused_as_a_whole<D: Driver>() {
    for layout in D::LAYOUTS {
        let Some(case) = Case::<D>::new(*layout).await else { return };
        let topic = (*layout == Some(RowLayout::Outbox)).then_some("wallets");
        let executor = case.builder().action(Annotate { topic }).build().unwrap();
        let place = &case.place;
        let count = async |table: &str| -> usize {
            place.one(&format!("SELECT COUNT(*) FROM {table}")).await.parse().unwrap()
        };
        let mut written = 0;
        for text in texts() {
            let params = Texts { text: text.clone(), named: text.clone() };
            let called =
                executor.call::<Annotate>(params).principal(format!("ann {text:.40}")).execute().await;
            match called {
                Ok(()) => {
                    written += 1;
                    let of_255: String = text.chars().take(255).collect();
                    let notes = place.rows("SELECT text FROM notes").await;
                    assert!(notes.iter().any(|row| row[0] == of_255), "{layout:?}: {of_255:?}");
                }
                // A database that takes no NUL in a text or in JSON.
                Err(error) => {
                    assert!(
                        text.contains("nul") || text.contains("u0000"),
                        "{layout:?} {text:.40}: {error:?}"
                    );
                }
            }
            assert_eq!(count("wallets").await, written, "{layout:?}: {text:.40}");
            assert_eq!(count("notes").await, written, "{layout:?}");
            assert_eq!(count("{events}").await, written, "{layout:?}");
        }
        assert!(written >= 4, "{layout:?}: {written}");
    }
}

/// A row whose id is a text from outside.
#[derive(Debug, Clone, Model)]
#[model(name = "Tag'\"\\", table = "tags")]
struct Tag {
    id: String,
    version: i64,
}

#[derive(Debug, Serialize, Event)]
#[event(model = Tag)]
struct TagAdded {
    at: i64,
}

#[derive(Action)]
struct AddTag;

impl Action for AddTag {
    type Params = String;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, id: &String) -> Result<()> {
        plan.add(Tag { id: id.clone(), version: 1 })?.event(&TagAdded { at: 1 })?;
        Ok(())
    }
}

#[tokio::test]
async fn ids_of_attackers_are_the_ids_of_rows_and_aggregates_or_are_refused() {
    let case = Case::<SqlxPostgres>::new(None).await;
    if let Some(case) = case {
        let tags = SqlxRepository::<Tag, _>::new(case.driver.database());
        check_ids(&case.place, case.builder().repository(tags).action(AddTag).build().unwrap()).await;
    }
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let tags = SqlxRepository::<Tag, _>::new(case.driver.database());
    check_ids(&case.place, case.builder().repository(tags).action(AddTag).build().unwrap()).await;
}

async fn check_ids<D: Database>(place: &impl Place, executor: postrider::action::Executor<D>) {
    place.rows("CREATE TABLE tags (id VARCHAR(1000) PRIMARY KEY, version BIGINT NOT NULL)").await;
    let taken = ["'; DROP TABLE tags; --", "a\"b\\c", "%_?$1", "é😀"];
    for id in taken {
        executor.execute::<AddTag>(id.to_owned()).await.unwrap();
    }
    for id in ["", "nul\0", "line\nbreak", &"x".repeat(256)] {
        let error = executor.execute::<AddTag>(id.to_owned()).await.unwrap_err();
        assert!(!error.report().is_empty(), "{id:?}");
    }
    let ids = place.rows("SELECT aggregate_id FROM {events} ORDER BY position").await;
    assert_eq!(ids.concat(), taken);
    assert_eq!(place.one("SELECT COUNT(*) FROM tags").await, taken.len().to_string());
    assert_eq!(place.one("SELECT MIN(aggregate_type) FROM {events}").await, "Tag'\"\\");
}

/// Stages a wallet, and this many events of it.
#[derive(Action)]
struct Flood;

impl Action for Flood {
    type Params = usize;
    type Output = ();
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, events: &usize) -> Result<()> {
        let mut staged = plan.add(Wallet { id: Uuid::now_v7(), balance: 0, version: 1 })?;
        for _ in 0..*events {
            staged = staged.event(&MoneyDeposited { amount: 1 })?;
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_plan_has_as_many_events_as_the_outbox_takes_in_one_call_and_more_are_refused_before_any_sql() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let outbox = case.place.outbox().limits(Limits::default().events_per_call_max(50));
    let executor = case.builder().outbox(outbox).action(Flood).build().unwrap();
    executor.execute::<Flood>(50).await.unwrap();
    // Without the table of the rows, SQL would fail with another code.
    case.place.rows("DROP TABLE wallets").await;
    let error = executor.execute::<Flood>(51).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::PlanInvalid, "the plan has more than 50 events"));
    let executor = case.builder().action(Flood).build().unwrap();
    let error = executor.execute::<Flood>(10_001).await.unwrap_err();
    assert_eq!(error.message(), "the plan has more than 10000 events");
}

#[derive(Debug, Serialize, Event)]
#[event(model = Wallet)]
struct Large {
    text: String,
}

#[test]
fn the_payloads_of_a_plan_have_a_limit() {
    let text = "x".repeat(1024 * 1024 - 100);
    let mut plan = Plan::for_test();
    let mut staged = plan.add(Wallet { id: Uuid::now_v7(), balance: 0, version: 1 }).unwrap();
    for _ in 0..64 {
        staged = staged.event(&Large { text: text.clone() }).unwrap();
    }
    let error = staged.event(&Large { text: text.clone() }).unwrap_err();
    assert_eq!(error.code(), Code::PlanInvalid);
    assert_eq!(error.message(), "the events of the plan have more than 67108864 bytes of payload");
    assert_eq!(plan.check().unwrap_err().code(), Code::PlanInvalid);
}
