//! The example as a user runs it, on every database: the right balance, one event per deposit, versions without gaps.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy sees only the tests themselves as tests, not their helpers"
)]

use std::process::Command;

use mysql_async::prelude::Queryable;
use postrider::Ident;
use postrider::layout::{RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::mysql::{MySqlConfig, MySqlRowStore, MySqlStore};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore, PostgresStore};
use postrider::store::sqlite::SqliteStore;
use postrider_testkit::servers::mysql::{Kind, Options, own};
use postrider_testkit::servers::postgres;
use tokio_postgres::NoTls;

const OUTPUT: &str = "opened
64 deposits, the highest balance was 64
placed an order of 40
refused: the balance is 24, the order costs 40
balance 24, version 66
";

/// Events by type, and the sentinel of the action without events.
const COUNTS: &str = "SELECT event_type, COUNT(*), COUNT(DISTINCT action_id) FROM eventlog.events GROUP BY event_type ORDER BY 1";

fn schema(uuid: &str) -> String {
    include_str!("../schema.sql").replace("{uuid}", uuid)
}

fn run(arguments: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_wallet")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), OUTPUT);
}

fn eventlog() -> RowTable {
    RowTable::new(RowLayout::Eventlog)
}

#[test]
fn the_wallet_service_keeps_its_books_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wallet.db");
    SqliteStore::migrate(&file).unwrap();
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute_batch(&schema("BLOB")).unwrap();
    run(&[&format!("sqlite://{}", file.display())]);
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(count("SELECT COUNT(*) FROM postrider_events WHERE type = 'MoneyDeposited'"), 64);
    assert_eq!(count("SELECT COUNT(*) FROM postrider_events WHERE type IN ('MoneySpent', 'OrderPlaced')"), 2);
    assert_eq!(count("SELECT COUNT(*) FROM postrider_actions WHERE name = 'OpenWallet'"), 1);
    assert_eq!(count("SELECT COUNT(*) FROM orders"), 1);
}

#[tokio::test]
async fn the_wallet_service_keeps_its_books_on_postgresql() {
    let Some(server) = postgres::url() else { return };
    for (name, layout) in [("wallet", None), ("wallet_eventlog", Some(eventlog()))] {
        let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let url = format!("{}/{name}", server.rsplit_once('/').unwrap().0);
        let config = PostgresConfig::new(&url).unwrap();
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&schema("uuid")).await.unwrap();
        let Some(table) = layout else {
            PostgresStore::migrate(&config).await.unwrap();
            run(&[&url]);
            let counts =
                client.query("SELECT type, COUNT(*) FROM postrider.events GROUP BY type ORDER BY 1", &[]);
            let counts: Vec<(String, i64)> =
                counts.await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
            let expected = [("MoneyDeposited", 64), ("MoneySpent", 1), ("OrderPlaced", 1)];
            assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)));
            continue;
        };
        PostgresRowStore::migrate(&config, &table, RowExtras::default()).await.unwrap();
        run(&[&url, "eventlog"]);
        let rows = client.query(COUNTS, &[]).await.unwrap();
        let counts: Vec<(Option<String>, i64, i64)> =
            rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        assert_eq!(sorted(counts), expected_eventlog());
    }
}

/// One server for the layout `eventlog`, whose database has this name: nothing else may use it.
async fn on_server(kind: Kind) {
    let Some(server) = own(Options::of(kind)) else { return };
    let start = server.url().rsplit_once('/').unwrap().0.to_owned();
    let config = MySqlConfig::new(server.url()).unwrap();
    let mut client = mysql_async::Conn::from_url(server.url()).await.unwrap();
    for name in ["wallet", "wallet_eventlog"] {
        client.query_drop(format!("CREATE DATABASE {name}; USE {name}")).await.unwrap();
        client.query_drop(schema("BINARY(16)")).await.unwrap();
    }
    MySqlStore::migrate(&config).await.unwrap();
    run(&[&format!("{start}/wallet")]);
    let sql = "SELECT type, COUNT(*) FROM postrider.events GROUP BY type ORDER BY 1";
    let counts: Vec<(String, i64)> = client.query(sql).await.unwrap();
    let expected = [("MoneyDeposited", 64), ("MoneySpent", 1), ("OrderPlaced", 1)];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)));

    // The tables of the service and `eventlog` are two databases, and one transaction.
    let config = config.schema(Ident::new("wallet_ledger").unwrap());
    MySqlRowStore::migrate(&config, &eventlog(), RowExtras::default()).await.unwrap();
    run(&[&format!("{start}/wallet_eventlog"), "eventlog"]);
    assert_eq!(sorted(client.query(COUNTS).await.unwrap()), expected_eventlog());
}

fn expected_eventlog() -> Vec<(Option<String>, i64, i64)> {
    let row = |name: &str, rows, actions| (Some(name.to_owned()), rows, actions);
    vec![(None, 1, 1), row("MoneyDeposited", 64, 64), row("MoneySpent", 1, 1), row("OrderPlaced", 1, 1)]
}

fn sorted(mut rows: Vec<(Option<String>, i64, i64)>) -> Vec<(Option<String>, i64, i64)> {
    rows.sort();
    rows
}

#[tokio::test]
async fn the_wallet_service_keeps_its_books_on_mysql() {
    on_server(Kind::MySql).await;
}

#[tokio::test]
async fn the_wallet_service_keeps_its_books_on_mariadb() {
    on_server(Kind::MariaDb).await;
}
