//! A commit whose outcome is unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider::action::{CommitError, Database, EventPersister, Executor, Performed, SqlxRepository};
use postrider::inbox::{Inbox, Received};
use postrider::write::ActionRecord;
use postrider::{BoxFuture, Code, Error, Event, Outbox, Result, Written};
use sqlx::PgPool;
use uuid::Uuid;

use crate::drivers::{Case, Driver, SqlxPostgres, SqlxSqlite};
use crate::place::Place;
use crate::wallet::{Amount, Deposit, Open};

/// Commits, and reports that it lost the connection.
pub(crate) struct Losing<D>(pub(crate) D);

impl<D: Database> Database for Losing<D> {
    type Transaction = D::Transaction;
    type Error = D::Error;

    async fn begin(&self) -> Result<D::Transaction> {
        self.0.begin().await
    }

    async fn commit(tx: D::Transaction) -> Result<(), CommitError> {
        D::commit(tx).await?;
        Err(CommitError::Unknown(Error::new(Code::StoreFailed, "the connection is lost")))
    }

    async fn rollback(tx: D::Transaction) {
        D::rollback(tx).await;
    }

    async fn write_events(
        tx: &mut D::Transaction,
        outbox: &Outbox,
        events: Vec<Event>,
    ) -> Result<Vec<Written>> {
        D::write_events(tx, outbox, events).await
    }

    async fn record_action(tx: &mut D::Transaction, outbox: &Outbox, record: ActionRecord) -> Result<()> {
        D::record_action(tx, outbox, record).await
    }

    async fn receive(tx: &mut D::Transaction, inbox: &Inbox, group: &str, id: Uuid) -> Result<Received> {
        D::receive(tx, inbox, group, id).await
    }

    fn failed(error: D::Error) -> Error {
        D::failed(error)
    }
}

/// Lends the repository of a pool to [`Losing`].
pub(crate) struct Lent<R>(pub(crate) R);

impl<M, D, R> postrider::action::Repository<M, Losing<D>> for Lent<R>
where
    M: postrider::action::Entity,
    D: Database,
    R: postrider::action::Repository<M, D>,
{
    async fn insert(&self, tx: &mut D::Transaction, rows: &[M]) -> Result<u64, D::Error> {
        self.0.insert(tx, rows).await
    }

    async fn update(&self, tx: &mut D::Transaction, rows: &[M]) -> Result<u64, D::Error> {
        self.0.update(tx, rows).await
    }
}

#[tokio::test]
async fn a_function_that_panics_while_it_wakes_the_relay_does_not_hide_the_commit() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let executor = case.builder().wake(|| panic!("no relay")).action(Open).build().unwrap();
    executor.execute::<Open>(Amount { wallet: Uuid::now_v7(), amount: 0 }).await.unwrap();
    assert_eq!(case.place.one("SELECT COUNT(*) FROM wallets").await, "1");
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_reported_with_the_action_and_not_repeated() {
    let case = Case::<SqlxSqlite>::new(None).await.unwrap();
    let wallet = Uuid::now_v7();
    let before = case.builder().action(Open).build().unwrap();
    before.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();

    let deposit = Deposit::new(case.driver.wallets());
    let (performed, woken) = (deposit.performed.clone(), Arc::new(AtomicUsize::new(0)));
    let wakes = woken.clone();
    let wallets = SqlxRepository::<crate::wallet::Wallet, _>::new(case.driver.database());
    let executor = Executor::builder(Losing(case.driver.database()))
        .namespace("shop")
        .outbox(case.place.outbox())
        .repository::<crate::wallet::Wallet, _>(Lent(wallets))
        .wake(move || _ = wakes.fetch_add(1, Ordering::Relaxed))
        .action(deposit)
        .build()
        .unwrap();
    let error = executor.execute::<Deposit>(Amount { wallet, amount: 5 }).await.unwrap_err();
    assert_eq!(error.code(), Code::ActionOutcomeUnknown, "{error}");
    assert_eq!(performed.load(Ordering::Relaxed), 1, "it must not run again: it is committed");
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    assert_eq!(case.place.rows("SELECT balance, version FROM wallets").await, [["5", "2"]]);
    // The message names the id under which the operator finds it.
    let action = case.place.one("SELECT action FROM {events}").await;
    let id = error.message().split(' ').find(|word| Uuid::parse_str(word).is_ok()).unwrap();
    assert!(action.contains(id), "{error}: {action}");
}

/// Writes the events, and then ends the session of the transaction, as an administrator would.
struct Terminating {
    outbox: Outbox,
    other: PgPool,
}

impl EventPersister<PgPool> for Terminating {
    fn persist<'a>(
        &'a self,
        tx: &'a mut sqlx::Transaction<'static, sqlx::Postgres>,
        performed: &'a Performed,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            EventPersister::<PgPool>::persist(&self.outbox, tx, performed).await?;
            let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut **tx).await.unwrap();
            let end = sqlx::query("SELECT pg_terminate_backend($1, 10000)").bind(pid);
            end.execute(&self.other).await.unwrap();
            Ok(())
        })
    }
}

#[tokio::test]
async fn a_session_that_ends_before_its_commit_is_an_unknown_outcome() {
    let Some(case) = Case::<SqlxPostgres>::new(None).await else { return };
    let terminating = Terminating { outbox: case.place.outbox(), other: case.driver.database() };
    let executor = case.builder().persister(terminating).action(Open).build().unwrap();
    let error = executor.execute::<Open>(Amount { wallet: Uuid::now_v7(), amount: 0 }).await.unwrap_err();
    assert_eq!(error.code(), Code::ActionOutcomeUnknown, "{error}");
    // Here it did not happen; the driver could not know.
    assert_eq!(case.place.one("SELECT COUNT(*) FROM wallets").await, "0");
}

/// A deferred constraint fails at the COMMIT: the server says so, and nothing happened.
#[tokio::test]
async fn a_commit_that_the_server_refuses_is_not_an_unknown_outcome() {
    let Some(case) = Case::<SqlxPostgres>::new(None).await else { return };
    case.place
        .rows(
            "ALTER TABLE wallets ADD CONSTRAINT one UNIQUE (balance) DEFERRABLE INITIALLY DEFERRED;
             INSERT INTO wallets VALUES (gen_random_uuid(), 7, 1)",
        )
        .await;
    let executor = case.builder().action(Open).build().unwrap();
    let error = executor.execute::<Open>(Amount { wallet: Uuid::now_v7(), amount: 7 }).await.unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::StoreFailed, "the database refused the commit"));
    assert_eq!(case.place.one("SELECT COUNT(*) FROM {actions}").await, "0");
}
