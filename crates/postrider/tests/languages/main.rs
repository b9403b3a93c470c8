//! The plain INSERT from other languages: the programs in `examples/any-language` write with their usual drivers, and a
//! relay delivers exactly the events that they wrote.
#![cfg(all(unix, feature = "mysql", feature = "postgres", feature = "sqlite"))]
#![cfg(test)]

mod database;
mod delivered;
mod mysql;
mod page;
mod program;

use std::sync::Arc;

use postrider::store::sqlite::SqliteStore;
use postrider_testkit::servers;
use postrider_testkit::servers::mysql::{Kind, Options};

use database::Database;
use delivered::{assert_as_written, deliver};
use program::{Language, Program};

const ORDERS: &str = include_str!("../../../../examples/any-language/orders.sql");

/// Runs the program of a language on a new outbox in PostgreSQL, as a user that may only write, and checks what a relay
/// delivers.
async fn check(language: Language) {
    let name = format!("languages_{}", language.folder());
    if !database::is_available() {
        return println!("SKIPPED: {name}: there is no PostgreSQL server");
    }
    let program = match Program::find(language) {
        Ok(program) => program,
        Err(reason) => return println!("SKIPPED: {name}: {reason}"),
    };
    let database = Database::new(&name, ORDERS).await;
    let url = if language == Language::Java { database.writer_jdbc_url() } else { database.writer_url() };
    program.run(&[("DATABASE_URL", &url)]).await;
    assert_as_written(&deliver(database.store().await, database.events().await).await);
    assert_eq!(database.orders().await, [(1, 2)], "one order, shipped twice; the other was rolled back");
    database.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_python_writes_with_psycopg_are_delivered_unchanged() {
    check(Language::Python).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_node_writes_with_pg_are_delivered_unchanged() {
    check(Language::Node).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_go_writes_with_pgx_are_delivered_unchanged() {
    check(Language::Go).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_java_writes_with_jdbc_are_delivered_unchanged() {
    check(Language::Java).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_python_writes_to_mysql_and_mariadb_are_delivered_unchanged() {
    for kind in Kind::ALL {
        let program = match Program::python_mysql() {
            Ok(program) => program,
            Err(reason) => return println!("SKIPPED: languages_python_mysql: {reason}"),
        };
        let Some(server) = servers::mysql::own(Options::of(kind)) else { continue };
        let database = mysql::Database::new(server, ORDERS).await;
        program.run(&[("DATABASE_URL", &database.writer_url())]).await;
        assert_as_written(&deliver(database.store().await, database.events().await).await);
        assert_eq!(database.orders().await, [(1, 2)], "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_python_writes_to_sqlite_are_delivered_unchanged() {
    let program = match Program::python_sqlite() {
        Ok(program) => program,
        Err(reason) => return println!("SKIPPED: languages_python_sqlite: {reason}"),
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    SqliteStore::migrate(&path).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(ORDERS).unwrap();
    program.run(&[("DATABASE", path.to_str().unwrap())]).await;
    let events = db.query_row("SELECT count(*) FROM postrider_events", [], |row| row.get(0)).unwrap();
    assert_as_written(&deliver(Arc::new(SqliteStore::open(&path).unwrap()), events).await);
    let orders = "SELECT group_concat(id || ' ' || version) FROM orders";
    assert_eq!(db.query_row(orders, [], |row| row.get::<_, String>(0)).unwrap(), "1 2");
}
