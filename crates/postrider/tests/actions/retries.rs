//! When an action runs again, and when not. The clock stands still, so nothing here waits for real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::action::{
    Action, Database, EventPersister, Executor, Performed, Plan, Retry, RetryOn, SqlxRepository,
};
use postrider::{BoxFuture, Clock, Code, Error, Now, Outbox, Result};
use postrider_testkit::ManualClock;
use tokio::sync::watch;
use uuid::Uuid;

use crate::drivers::{Case, Driver, SqlxSqlite};
use crate::place::Place;
use crate::wallet::{Amount, MoneyDeposited, Open, Wallet, Wallets};

/// Deposits, and lets another program change the row between the read and the write in the first tries.
#[derive(Action)]
#[action(name = "Deposit")]
struct Raced {
    wallets: Wallets,
    /// Changes the row.
    other: Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
    races: usize,
    performed: Arc<AtomicUsize>,
}

impl Action for Raced {
    type Params = Amount;
    type Output = Uuid;
    type Error = Error;

    async fn perform(&self, plan: &mut Plan, params: &Amount) -> Result<Uuid> {
        let mut wallet = self.wallets.find(params.wallet).await?;
        if self.performed.fetch_add(1, Ordering::Relaxed) < self.races {
            (self.other)().await;
        }
        wallet.balance += params.amount;
        plan.update(wallet)?.event(&MoneyDeposited { amount: params.amount })?;
        Ok(plan.action_id())
    }
}

/// A clock that reports until when the executor waits.
#[derive(Clone)]
pub(crate) struct WatchedClock {
    pub(crate) manual: ManualClock,
    waits: watch::Sender<Option<Duration>>,
}

impl WatchedClock {
    pub(crate) fn new() -> Self {
        Self { manual: ManualClock::default(), waits: watch::Sender::new(None) }
    }

    /// Until when the executor waits, as soon as it does.
    pub(crate) async fn waits(&self) -> Duration {
        self.waits.subscribe().wait_for(Option::is_some).await.unwrap().unwrap()
    }
}

impl Clock for WatchedClock {
    fn now(&self) -> Now {
        self.manual.now()
    }

    fn sleep_until(&self, elapsed: Duration) -> BoxFuture<'static, ()> {
        self.waits.send_replace(Some(elapsed));
        self.manual.sleep_until(elapsed)
    }
}

struct Race<D: Driver> {
    case: Arc<Case<D>>,
    executor: Executor<D::Database>,
    performed: Arc<AtomicUsize>,
    clock: WatchedClock,
    wallet: Uuid,
}

async fn race<D: Driver>(races: usize, retry: Option<Retry>) -> Option<Race<D>> {
    let case = Arc::new(Case::<D>::new(None).await?);
    let (clock, performed) = (WatchedClock::new(), Arc::new(AtomicUsize::new(0)));
    let other = {
        let case = case.clone();
        move || -> BoxFuture<'static, ()> {
            let case = case.clone();
            Box::pin(async move {
                case.place.rows("UPDATE wallets SET balance = balance + 1000, version = version + 1").await;
            })
        }
    };
    let raced =
        Raced { wallets: case.driver.wallets(), other: Box::new(other), races, performed: performed.clone() };
    let mut builder = case.builder().clock(clock.clone()).action(Open).action(raced);
    if let Some(retry) = retry {
        builder = builder.retry(RetryOn::Stale, retry);
    }
    let executor = builder.build().unwrap();
    let wallet = Uuid::now_v7();
    executor.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();
    Some(Race { case, executor, performed, clock, wallet })
}

pub(crate) async fn a_stale_action_runs_again_as_a_whole_with_a_new_plan<D: Driver>() {
    let Some(Race { case, executor, performed, clock, wallet }) = race::<D>(1, None).await else { return };
    let started = clock.now().wall;
    let running = tokio::spawn(async move { executor.execute::<Raced>(Amount { wallet, amount: 1 }).await });
    assert_eq!(clock.waits().await, Duration::from_millis(100), "it waits for 100 ms");
    assert_eq!(performed.load(Ordering::Relaxed), 1);
    clock.manual.advance(Duration::from_millis(100));
    let id = running.await.unwrap().unwrap();
    assert_eq!(performed.load(Ordering::Relaxed), 2);
    // The second try read what the other program wrote.
    assert_eq!(case.place.rows("SELECT balance, version FROM wallets").await, [["1001", "3"]]);
    let action = case.place.rows("SELECT action FROM {events}").await;
    assert_eq!(action.len(), 1);
    assert!(action[0][0].contains(&id.to_string()), "{action:?}");
    // It started before the first try, and completed after the last.
    let times = [started, started.after(Duration::from_millis(100))].map(|time| time.as_micros().to_string());
    assert!(times.iter().all(|time| action[0][0].contains(time)), "{action:?}: {times:?}");
}

pub(crate) async fn an_action_that_stays_stale_fails_with_its_code_and_writes_nothing<D: Driver>() {
    let retry = Retry::times(2).delay(Duration::ZERO);
    let Some(Race { case, executor, performed, wallet, .. }) = race::<D>(9, Some(retry)).await else {
        return;
    };
    let error = executor.execute::<Raced>(Amount { wallet, amount: 1 }).await.unwrap_err();
    assert_eq!((error.code(), performed.load(Ordering::Relaxed)), (Code::ActionStale, 3), "{error}");
    assert_eq!(error.message(), "0 of 1 rows of Wallet had the version that the action read");
    assert_eq!(case.place.one("SELECT COUNT(*) FROM {events}").await, "0");
    assert_eq!(case.place.rows("SELECT balance, version FROM wallets").await, [["3000", "4"]]);
}

#[tokio::test]
async fn an_error_kind_without_retries_ends_the_execution_at_once() {
    let Race { executor, performed, wallet, .. } = race::<SqlxSqlite>(1, Some(Retry::NEVER)).await.unwrap();
    let error = executor.execute::<Raced>(Amount { wallet, amount: 1 }).await.unwrap_err();
    assert_eq!((error.code(), performed.load(Ordering::Relaxed)), (Code::ActionStale, 1));
}

/// Fails with this code in the first calls.
struct Failing {
    code: Code,
    failures: usize,
    calls: Arc<AtomicUsize>,
    outbox: Outbox,
}

impl<D: Database> EventPersister<D> for Failing {
    fn persist<'a>(
        &'a self,
        tx: &'a mut D::Transaction,
        performed: &'a Performed,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            EventPersister::<D>::persist(&self.outbox, tx, performed).await?;
            match self.calls.fetch_add(1, Ordering::Relaxed) < self.failures {
                true => Err(Error::new(self.code, "the test refuses")),
                false => Ok(()),
            }
        })
    }
}

#[tokio::test]
async fn a_deadlock_is_retried_and_a_refused_event_is_not() {
    for (code, expected_calls, is_written) in
        [(Code::StoreBusy, 2, true), (Code::LayoutUnfit, 1, false), (Code::StoreFailed, 1, false)]
    {
        let case = Case::<SqlxSqlite>::new(None).await.unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let failing = Failing { code, failures: 1, calls: calls.clone(), outbox: case.place.outbox() };
        let builder = Executor::builder(case.driver.database()).namespace("shop").persister(failing);
        let executor = builder
            .retry(RetryOn::Busy, Retry::times(1).delay(Duration::ZERO))
            .repository(SqlxRepository::<Wallet, _>::new(case.driver.database()))
            .action(Open)
            .build()
            .unwrap();
        let opened = executor.execute::<Open>(Amount { wallet: Uuid::now_v7(), amount: 0 }).await;
        assert_eq!((opened.is_ok(), calls.load(Ordering::Relaxed)), (is_written, expected_calls), "{code}");
        let rows = case.place.one("SELECT COUNT(*) FROM wallets").await;
        assert_eq!(rows, usize::from(is_written).to_string(), "{code}");
    }
}
