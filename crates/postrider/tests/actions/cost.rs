//! What an execution costs, compared with the same statements by hand: round trips and WAL bytes. A proxy counts the round
//! trips: how often the client sends after the server has answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use postrider::action::{Executor, SqlxRepository};
use postrider::store::postgres::{PostgresConfig, PostgresStore};
use postrider::{Event, IntoEvent, Outbox};
use postrider_testkit::servers::postgres;
use sqlx::{PgPool, Row};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use uuid::Uuid;

use crate::wallet::{Amount, Deposit, MoneyDeposited, Wallet, Wallets};

/// Executions per measurement, after one that prepares the statements.
const EXECUTIONS: u64 = 200;

/// Counts the round trips of all connections through it.
#[derive(Default)]
struct Counter {
    round_trips: AtomicU64,
}

impl Counter {
    /// Listens, and forwards to this port.
    async fn listen(self: Arc<Self>, port: u16) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(forward(client, server, self.clone()));
            }
        });
        own
    }
}

/// Both directions in one task, so that their order is known.
async fn forward(mut client: TcpStream, mut server: TcpStream, counter: Arc<Counter>) {
    let (mut request, mut response) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut has_answered = true;
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    loop {
        tokio::select! {
            read = client.read(&mut request) => match read {
                Ok(bytes) if bytes > 0 => {
                    if std::mem::take(&mut has_answered) {
                        counter.round_trips.fetch_add(1, Ordering::Relaxed);
                    }
                    server.write_all(&request[..bytes]).await.unwrap();
                }
                _ => return,
            },
            read = server.read(&mut response) => match read {
                Ok(bytes) if bytes > 0 => {
                    has_answered = true;
                    _ = client.write_all(&response[..bytes]).await;
                }
                _ => return,
            },
        }
    }
}

/// The statements of `Deposit`, as a careful program writes them.
async fn by_hand(pool: &PgPool, outbox: &Outbox, wallet: Uuid) {
    let select = "SELECT id, balance, version FROM wallets WHERE id = $1";
    let row = sqlx::query(select).bind(wallet).fetch_one(pool).await.unwrap();
    let (balance, version): (i64, i64) = (row.get(1), row.get(2));
    let mut tx = pool.begin().await.unwrap();
    let update = "UPDATE wallets SET balance = $1, version = version + 1 WHERE id = $2 AND version = $3";
    let updated =
        sqlx::query(update).bind(balance + 1).bind(wallet).bind(version).execute(&mut *tx).await.unwrap();
    assert_eq!(updated.rows_affected(), 1);
    let action = postrider::Action {
        id: Uuid::now_v7(),
        name: "Deposit".to_owned(),
        params: format!("{{\"wallet\":\"{wallet}\",\"amount\":1}}"),
        started: Event::new("now", "").time,
        completed: Event::new("now", "").time,
    };
    let event = (&MoneyDeposited { amount: 1 }).into_event().unwrap();
    let event = event
        .with_aggregate("Wallet", wallet.to_string())
        .with_action(action)
        .with_namespace("com.example.shop");
    outbox.write(&mut tx, event).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_costs_the_round_trips_of_the_same_statements_by_hand() {
    // Nothing else writes to this server, and no page is written as a whole after a checkpoint.
    let options = postgres::Options::default().setting("full_page_writes=off").setting("autovacuum=off");
    let Some(server) = postgres::own(options) else { return };
    PostgresStore::migrate(&PostgresConfig::new(server.url()).unwrap()).await.unwrap();
    let owner = PgPool::connect(server.url()).await.unwrap();
    let table =
        "CREATE TABLE wallets (id uuid PRIMARY KEY, balance bigint NOT NULL, version bigint NOT NULL)";
    sqlx::query(table).execute(&owner).await.unwrap();
    let counter = Arc::new(Counter::default());
    let own = counter.clone().listen(server.port()).await;
    let url = server.url().replace(&format!(":{}/", server.port()), &format!(":{own}/"));
    assert_ne!(url, server.url());
    // One connection that is not checked before every use, as a busy pool has it.
    let options = sqlx::postgres::PgPoolOptions::new().max_connections(1).test_before_acquire(false);
    let pool = options.connect(&url).await.unwrap();

    let wallets = SqlxRepository::<Wallet, _>::new(pool.clone());
    let reading = wallets.clone();
    let deposit = Deposit::new(Wallets::new(move |id| {
        let reading = reading.clone();
        async move { reading.find(&id).await }
    }));
    let executor = Executor::builder(pool.clone()).namespace("com.example.shop").repository(wallets);
    let executor = executor.action(deposit).build().unwrap();
    let wallet = Uuid::now_v7();
    sqlx::query("INSERT INTO wallets VALUES ($1, 0, 1)").bind(wallet).execute(&owner).await.unwrap();

    let outbox = Outbox::new();
    let mut measured = Vec::new();
    for is_executed in [false, true] {
        let mut start = (0, 0);
        for number in 0..=EXECUTIONS {
            if number == 1 {
                start = (counter.round_trips.load(Ordering::Relaxed), wal_bytes(&owner).await);
            }
            match is_executed {
                true => _ = executor.execute::<Deposit>(Amount { wallet, amount: 1 }).await.unwrap(),
                false => by_hand(&pool, &outbox, wallet).await,
            }
        }
        let round_trips = counter.round_trips.load(Ordering::Relaxed) - start.0;
        measured.push((round_trips, wal_bytes(&owner).await - start.1));
    }
    let [by_hand, executed] = [measured[0], measured[1]]
        .map(|(trips, bytes)| (trips as f64 / EXECUTIONS as f64, bytes as f64 / EXECUTIONS as f64));
    println!(
        "by hand: {:.2} round trips, {:.0} bytes; execute: {:.2} round trips, {:.0} bytes",
        by_hand.0, by_hand.1, executed.0, executed.1
    );
    assert!(by_hand.0 >= 5.0, "SELECT, BEGIN, UPDATE, INSERT, COMMIT: {}", by_hand.0);
    assert!(executed.0 <= 1.1 * by_hand.0, "{} round trips instead of {}", executed.0, by_hand.0);
    assert!(executed.1 <= 1.1 * by_hand.1, "{} bytes instead of {}", executed.1, by_hand.1);
}

/// The bytes that the server has written to its log.
async fn wal_bytes(pool: &PgPool) -> i64 {
    let sql = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}
