//! A handler that executes an action in its own transaction, together with the inbox, in a relay that dies around the
//! commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::action::{Database, Executor};
use postrider::handler::{Context, Result};
use postrider::inbox::Received;
use postrider::relay::Policy;
use postrider::store::Store;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::store::sqlite::SqliteStore;
use postrider::{BoxFuture, Relay, Subscription};
use postrider_testkit::eventually;
use uuid::Uuid;

use crate::drivers::{Case, Driver, SqlxMariaDb, SqlxMySql, SqlxPostgres, SqlxSqlite};
use crate::place::{MySqlPlace, Place, Postgres, ServerKind, Sqlite};
use crate::wallet::{Amount, Deposit, MoneyDeposited, Open, PlaceOrders};

const DEPOSITS: usize = 3;

/// Where the process dies in its first life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dies {
    BeforeCommit,
    AfterCommit,
}

/// One life of the process, and how often it reached its end and found an event handled.
#[derive(Clone, Default)]
struct Life {
    dies: Option<Dies>,
    reached: Arc<AtomicUsize>,
    duplicates: Arc<AtomicUsize>,
}

impl Life {
    async fn reach(&self, point: Dies) {
        if self.dies == Some(point) {
            self.reached.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    }
}

type Handler = dyn Fn(Life, MoneyDeposited, Context) -> BoxFuture<'static, Result> + Send + Sync;

/// The handler of an application: orders are placed for every deposit.
macro_rules! handler {
    ($executor:expr, $pool:expr, $inbox:expr, $wallet:expr) => {{
        let (executor, pool, inbox, wallet) = ($executor, $pool, $inbox, $wallet);
        let handler: Arc<Handler> = Arc::new(move |life, _, cx: Context| {
            let (executor, pool, inbox): (Executor<_>, _, _) =
                (executor.clone(), pool.clone(), inbox.clone());
            Box::pin(async move {
                let mut tx = Database::begin(&pool).await?;
                if cx.receive(&inbox, &mut tx).await? == Received::First {
                    executor.call::<PlaceOrders>(Amount { wallet, amount: 1 }).execute_in(&mut tx).await?;
                } else {
                    life.duplicates.fetch_add(1, Ordering::SeqCst);
                }
                life.reach(Dies::BeforeCommit).await;
                tx.commit().await?;
                life.reach(Dies::AfterCommit).await;
                Ok(())
            })
        });
        handler
    }};
}

/// Handles all deposits, in a process that dies and in the next one. Returns how many deposits the second found handled.
async fn handle(store: &Arc<dyn Store>, handler: &Arc<Handler>, dies: Dies, place: &impl Place) -> usize {
    let start = async |life: Life| {
        let handler = handler.clone();
        let function = move |deposited, cx| handler(life.clone(), deposited, cx);
        let policy = Policy::default().lease(Duration::from_secs(1));
        let subscription = Subscription::handler("orders", function).policy(policy);
        Relay::builder().outbox(store.clone(), [subscription]).spawn().await.unwrap()
    };
    let first = Life { dies: Some(dies), ..Life::default() };
    let relay = start(first.clone()).await;
    eventually("the process is at its end", async || first.reached.load(Ordering::SeqCst) > 0).await;
    drop(relay);
    let second = Life::default();
    let relay = start(second.clone()).await;
    eventually("all deposits are handled", async || {
        place.one("SELECT count(*) FROM notes").await == DEPOSITS.to_string()
            && store.overview(100).await.unwrap().subscriptions[0].backlog.events == 0
    })
    .await;
    relay.shutdown().await.unwrap();
    second.duplicates.load(Ordering::SeqCst)
}

/// Every deposit has placed two orders, written one note and emitted three events, and no more.
async fn check(place: &impl Place, dies: Dies, duplicates: usize) {
    assert_eq!(place.rows("SELECT balance, version FROM wallets").await, [["-3", "7"]], "{dies:?}");
    for (sql, expected) in [
        ("SELECT count(*) FROM orders", 2 * DEPOSITS),
        ("SELECT count(*) FROM notes", DEPOSITS),
        ("SELECT count(*) FROM {events} WHERE type = 'MoneySpent'", DEPOSITS),
        ("SELECT count(*) FROM {events} WHERE type = 'order.placed'", 2 * DEPOSITS),
    ] {
        assert_eq!(place.one(sql).await, expected.to_string(), "{dies:?}: {sql}");
    }
    assert_eq!(duplicates > 0, dies == Dies::AfterCommit, "{dies:?}: {duplicates}");
}

/// The test for one driver; `$open` opens the store that the relay reads.
macro_rules! on {
    ($name:ident, $driver:ty, $open:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            for dies in [Dies::BeforeCommit, Dies::AfterCommit] {
                let Some(case) = Case::<$driver>::new(None).await else { return };
                let wallets = case.driver.wallets();
                let builder = case.builder().action(Open).action(Deposit::new(wallets.clone()));
                let executor = builder.action(PlaceOrders { wallets, topic: None }).build().unwrap();
                let wallet = Uuid::now_v7();
                executor.execute::<Open>(Amount { wallet, amount: 0 }).await.unwrap();
                for _ in 0..DEPOSITS {
                    executor.execute::<Deposit>(Amount { wallet, amount: 1 }).await.unwrap();
                }
                let store: Arc<dyn Store> = Arc::new($open(&case.place).await);
                let handler = handler!(executor, case.driver.database(), case.place.inbox(), wallet);
                let duplicates = handle(&store, &handler, dies, &case.place).await;
                check(&case.place, dies, duplicates).await;
                store.close().await;
            }
        }
    };
}

on!(
    an_action_in_the_transaction_of_a_handler_happens_once_in_sqlite_though_the_relay_dies,
    SqlxSqlite,
    async |place: &Sqlite| SqliteStore::open(place.url().strip_prefix("sqlite://").unwrap()).unwrap()
);

on!(
    an_action_in_the_transaction_of_a_handler_happens_once_in_postgres_though_the_relay_dies,
    SqlxPostgres,
    async |place: &Postgres| PostgresStore::connect(&PostgresConfig::new(place.url()).unwrap())
        .await
        .unwrap()
);

async fn mysql<K: ServerKind>(place: &MySqlPlace<K>) -> MySqlStore {
    let config = MySqlConfig::new(place.url()).unwrap().schema(place.own());
    MySqlStore::connect(&config).await.unwrap()
}

on!(an_action_in_the_transaction_of_a_handler_happens_once_in_mysql_though_the_relay_dies, SqlxMySql, mysql);

on!(
    an_action_in_the_transaction_of_a_handler_happens_once_in_mariadb_though_the_relay_dies,
    SqlxMariaDb,
    mysql
);
