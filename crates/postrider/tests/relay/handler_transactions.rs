//! Handlers whose effect, follow-up event and inbox row are one transaction, in a relay that dies at each of its steps, on
//! every database.
#![cfg(all(
    feature = "postgres",
    feature = "mysql",
    feature = "sqlx-postgres",
    feature = "sqlx-mysql",
    feature = "sqlx-sqlite",
    feature = "derive"
))]

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::handler::{Context, Result};
use postrider::inbox::{Inbox, Received};
use postrider::relay::Policy;
use postrider::store::Store;
use postrider::store::mysql::{MySqlConfig, MySqlStore};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{BoxFuture, Event, Ident, Outbox, Relay, Subscription};
use postrider_testkit::servers::mysql::Kind;
use postrider_testkit::servers::postgres;
use postrider_testkit::{Emitted, Expected, eventually};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{MySqlPool, PgPool, SqlitePool};

use super::shop::Shop;

const ORDERS: i64 = 3;

#[derive(Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.placed")]
struct OrderPlaced {
    order: i64,
}

#[derive(Event, serde::Serialize, serde::Deserialize)]
#[event(type = "order.billed")]
struct OrderBilled {
    order: i64,
}

/// Where the relay dies in its first term.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dies {
    Never,
    BeforeReceive,
    AfterReceive,
    AfterEffect,
    BeforeCommit,
    AfterCommit,
}

impl Dies {
    const ALL: [Self; 6] = [
        Self::Never,
        Self::BeforeReceive,
        Self::AfterReceive,
        Self::AfterEffect,
        Self::BeforeCommit,
        Self::AfterCommit,
    ];
}

/// One life of the process: how often its handler reached the end of it, and found an event handled.
#[derive(Clone)]
struct Process {
    dies: Dies,
    reached: Arc<AtomicUsize>,
    duplicates: Arc<AtomicUsize>,
}

impl Process {
    fn new(dies: Dies) -> Self {
        Self { dies, reached: Arc::default(), duplicates: Arc::default() }
    }

    async fn reach(&self, point: Dies) {
        if self.dies == point {
            self.reached.fetch_add(1, Ordering::SeqCst);
            std::future::pending().await
        }
    }

    fn received(&self, received: Received) -> bool {
        self.duplicates.fetch_add(usize::from(received == Received::Duplicate), Ordering::SeqCst);
        received == Received::First
    }
}

/// Writes the orders, and returns the handler of an application. `$begin` begins a transaction of the pool.
macro_rules! application {
    ($pool:expr, $schema:expr, $begin:expr, $insert:literal) => {{
        let (pool, schema): (_, Option<Ident>) = ($pool, $schema);
        let (inbox, outbox) = match schema {
            None => (Inbox::new(), Outbox::new()),
            Some(schema) => (Inbox::new().schema(schema.clone()), Outbox::new().schema(schema)),
        };
        let mut tx = $begin(&pool).await.unwrap();
        for order in 0..ORDERS {
            outbox.write(&mut tx, &OrderPlaced { order }).await.unwrap();
        }
        tx.commit().await.unwrap();
        let bill: Arc<Bill> = Arc::new(move |process, placed, cx| {
            let (pool, inbox, outbox) = (pool.clone(), inbox.clone(), outbox.clone());
            Box::pin(async move {
                let mut tx = $begin(&pool).await?;
                process.reach(Dies::BeforeReceive).await;
                if process.received(cx.receive(&inbox, &mut tx).await?) {
                    process.reach(Dies::AfterReceive).await;
                    sqlx::query($insert).bind(placed.order).execute(&mut *tx).await?;
                    process.reach(Dies::AfterEffect).await;
                    outbox.write(&mut tx, &OrderBilled { order: placed.order }).await?;
                }
                process.reach(Dies::BeforeCommit).await;
                tx.commit().await?;
                process.reach(Dies::AfterCommit).await;
                Ok(())
            })
        });
        bill
    }};
}

type Bill = dyn Fn(Process, OrderPlaced, Context) -> BoxFuture<'static, Result> + Send + Sync;

/// Handles the orders, in a relay that dies and in the one after it. Returns how often the second one found an order done.
async fn handle(store: Arc<dyn Store>, bill: Arc<Bill>, dies: Dies) -> usize {
    let start = async |process: Process| {
        let bill = bill.clone();
        let handler = move |placed: OrderPlaced, cx: Context| bill(process.clone(), placed, cx);
        let policy = Policy::default().lease(Duration::from_secs(1));
        let subscription = Subscription::handler("billing", handler).policy(policy);
        Relay::builder().outbox(store.clone(), [subscription]).spawn().await.unwrap()
    };
    let dying = Process::new(dies);
    if dies != Dies::Never {
        let relay = start(dying.clone()).await;
        eventually("the handlers are at the point", async || dying.reached.load(Ordering::SeqCst) > 0).await;
        drop(relay);
    }
    let process = Process::new(Dies::Never);
    let relay = start(process.clone()).await;
    eventually("both kinds of events are handled", async || {
        let overview = store.overview(1_000).await.unwrap();
        let emitted = Emitted::committed(&*store).await.unwrap();
        let billed = emitted.of_type("order.billed").events().len();
        overview.subscriptions[0].backlog.events == 0 && billed >= ORDERS as usize
    })
    .await;
    relay.shutdown().await.unwrap();
    process.duplicates.load(Ordering::SeqCst)
}

/// The effect, the follow-up events, and how many deliveries were duplicates.
async fn check(store: &dyn Store, bills: i64, dies: Dies, duplicates: usize) {
    assert_eq!(bills, ORDERS, "{dies:?}");
    let billed = Emitted::committed(store).await.unwrap().of_type("order.billed");
    let expected: Vec<Expected> = (0..ORDERS).map(|_| Expected::new("order.billed")).collect();
    billed.assert(&expected);
    match dies {
        Dies::AfterCommit => assert!(duplicates > 0, "a committed order was handled again"),
        _ => assert_eq!(duplicates, 0, "{dies:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn effect_and_follow_up_event_happen_once_in_sqlite_wherever_the_relay_dies() {
    for dies in Dies::ALL {
        let shop = Shop::open();
        let url = format!("sqlite://{}", shop.path().display());
        let options = SqliteConnectOptions::from_str(&url).unwrap().busy_timeout(Duration::from_secs(30));
        let pool = SqlitePool::connect_with(options).await.unwrap();
        sqlx::query("CREATE TABLE bills (order_id INTEGER)").execute(&pool).await.unwrap();
        let begin = async |pool: &SqlitePool| pool.begin_with("BEGIN IMMEDIATE").await;
        let bill = application!(pool.clone(), None, begin, "INSERT INTO bills VALUES (?)");
        let duplicates = handle(shop.store.clone(), bill, dies).await;
        let bills = sqlx::query_scalar("SELECT count(*) FROM bills").fetch_one(&pool).await.unwrap();
        check(&*shop.store, bills, dies, duplicates).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn effect_and_follow_up_event_happen_once_in_postgres_wherever_the_relay_dies() {
    let Some(url) = postgres::url() else { return };
    let pool = PgPool::connect(url).await.unwrap();
    let schema = Ident::new("handler_transactions").unwrap();
    for dies in Dies::ALL {
        let fresh = "DROP SCHEMA IF EXISTS handler_transactions CASCADE";
        sqlx::query(fresh).execute(&pool).await.unwrap();
        sqlx::query("DROP TABLE IF EXISTS handler_bills").execute(&pool).await.unwrap();
        sqlx::query("CREATE TABLE handler_bills (order_id bigint)").execute(&pool).await.unwrap();
        let config = PostgresConfig::new(url).unwrap().schema(schema.clone());
        PostgresStore::migrate(&config).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(&config).await.unwrap());
        let begin = async |pool: &PgPool| pool.begin().await;
        let insert =
            application!(pool.clone(), Some(schema.clone()), begin, "INSERT INTO handler_bills VALUES ($1)");
        let duplicates = handle(store.clone(), insert, dies).await;
        let bills = sqlx::query_scalar("SELECT count(*) FROM handler_bills").fetch_one(&pool).await.unwrap();
        check(&*store, bills, dies, duplicates).await;
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn effect_and_follow_up_event_happen_once_in_mysql_and_mariadb_wherever_the_relay_dies() {
    for kind in [Kind::MySql, Kind::MariaDb] {
        let Some(url) = kind.url() else { continue };
        let pool = MySqlPool::connect(url).await.unwrap();
        let schema = Ident::new("handler_transactions").unwrap();
        for dies in Dies::ALL {
            sqlx::query("DROP DATABASE IF EXISTS handler_transactions").execute(&pool).await.unwrap();
            let config = MySqlConfig::new(url).unwrap().schema(schema.clone());
            MySqlStore::migrate(&config).await.unwrap();
            let bills = "CREATE TABLE handler_transactions.bills (order_id BIGINT)";
            sqlx::query(bills).execute(&pool).await.unwrap();
            let store: Arc<dyn Store> = Arc::new(MySqlStore::connect(&config).await.unwrap());
            let begin = async |pool: &MySqlPool| pool.begin().await;
            let schema = Some(schema.clone());
            let bill = application!(
                pool.clone(),
                schema,
                begin,
                "INSERT INTO handler_transactions.bills VALUES (?)"
            );
            let duplicates = handle(store.clone(), bill, dies).await;
            let count = "SELECT count(*) FROM handler_transactions.bills";
            let bills = sqlx::query_scalar(count).fetch_one(&pool).await.unwrap();
            check(&*store, bills, dies, duplicates).await;
            store.close().await;
        }
    }
}
