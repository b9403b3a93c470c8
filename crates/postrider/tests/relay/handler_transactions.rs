//! Handlers whose effect, follow-up event and inbox row are one transaction, in a relay that dies around the commit.
#![cfg(all(feature = "postgres", feature = "sqlx-postgres", feature = "sqlx-sqlite", feature = "derive"))]

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postrider::handler::{Context, Result};
use postrider::inbox::{Inbox, Received};
use postrider::relay::Policy;
use postrider::store::Store;
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{BoxFuture, Event, Ident, Outbox, Relay, Subscription};
use postrider_testkit::servers::postgres;
use postrider_testkit::{Emitted, Expected, eventually};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{PgPool, SqlitePool};

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

/// Where the relay dies in its first term, and how often the handler got there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dies {
    Never,
    BeforeCommit,
    AfterCommit,
}

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

/// The handler of an application on SQLite.
async fn bill_in_sqlite(pool: SqlitePool, process: Process, placed: OrderPlaced, cx: Context) -> Result {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    if process.received(cx.receive(&Inbox::new(), &mut tx).await?) {
        sqlx::query("INSERT INTO bills VALUES (?)").bind(placed.order).execute(&mut *tx).await?;
        Outbox::new().write(&mut tx, &OrderBilled { order: placed.order }).await?;
    }
    process.reach(Dies::BeforeCommit).await;
    tx.commit().await?;
    process.reach(Dies::AfterCommit).await;
    Ok(())
}

/// The same on PostgreSQL.
async fn bill_in_postgres(pool: PgPool, process: Process, placed: OrderPlaced, cx: Context) -> Result {
    let (inbox, outbox) = (Inbox::new().schema(schema()), Outbox::new().schema(schema()));
    let mut tx = pool.begin().await?;
    if process.received(cx.receive(&inbox, &mut tx).await?) {
        sqlx::query("INSERT INTO handler_bills VALUES ($1)").bind(placed.order).execute(&mut *tx).await?;
        outbox.write(&mut tx, &OrderBilled { order: placed.order }).await?;
    }
    process.reach(Dies::BeforeCommit).await;
    tx.commit().await?;
    process.reach(Dies::AfterCommit).await;
    Ok(())
}

fn schema() -> Ident {
    Ident::new("handler_transactions").unwrap()
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
        Dies::Never | Dies::BeforeCommit => assert_eq!(duplicates, 0, "{dies:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn effect_and_follow_up_event_happen_once_in_sqlite_though_the_relay_dies_around_the_commit() {
    for dies in [Dies::Never, Dies::BeforeCommit, Dies::AfterCommit] {
        let shop = Shop::open();
        let url = format!("sqlite://{}", shop.path().display());
        let options = SqliteConnectOptions::from_str(&url).unwrap().busy_timeout(Duration::from_secs(30));
        let pool = SqlitePool::connect_with(options).await.unwrap();
        sqlx::query("CREATE TABLE bills (order_id INTEGER)").execute(&pool).await.unwrap();
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        for order in 0..ORDERS {
            Outbox::new().write(&mut tx, &OrderPlaced { order }).await.unwrap();
        }
        tx.commit().await.unwrap();
        let of = pool.clone();
        let bill: Arc<Bill> =
            Arc::new(move |process, placed, cx| Box::pin(bill_in_sqlite(of.clone(), process, placed, cx)));
        let duplicates = handle(shop.store.clone(), bill, dies).await;
        let bills = sqlx::query_scalar("SELECT count(*) FROM bills").fetch_one(&pool).await.unwrap();
        check(&*shop.store, bills, dies, duplicates).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn effect_and_follow_up_event_happen_once_in_postgres_though_the_relay_dies_around_the_commit() {
    let Some(url) = postgres::url() else { return };
    let pool = PgPool::connect(url).await.unwrap();
    for dies in [Dies::Never, Dies::BeforeCommit, Dies::AfterCommit] {
        let fresh = "DROP SCHEMA IF EXISTS handler_transactions CASCADE";
        sqlx::query(fresh).execute(&pool).await.unwrap();
        sqlx::query("DROP TABLE IF EXISTS handler_bills").execute(&pool).await.unwrap();
        sqlx::query("CREATE TABLE handler_bills (order_id bigint)").execute(&pool).await.unwrap();
        let config = PostgresConfig::new(url).unwrap().schema(schema());
        PostgresStore::migrate(&config).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(PostgresStore::connect(&config).await.unwrap());
        let mut tx = pool.begin().await.unwrap();
        for order in 0..ORDERS {
            Outbox::new().schema(schema()).write(&mut tx, &OrderPlaced { order }).await.unwrap();
        }
        tx.commit().await.unwrap();
        let of = pool.clone();
        let bill: Arc<Bill> =
            Arc::new(move |process, placed, cx| Box::pin(bill_in_postgres(of.clone(), process, placed, cx)));
        let duplicates = handle(store.clone(), bill, dies).await;
        let bills = sqlx::query_scalar("SELECT count(*) FROM handler_bills").fetch_one(&pool).await.unwrap();
        check(&*store, bills, dies, duplicates).await;
        store.close().await;
    }
}
