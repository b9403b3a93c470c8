//! Writing to a SQLite outbox: the transaction of the caller, and the state after an error.

use postrider::store::sqlite::SqliteStore;
use postrider::{Code, Event, Limits, Outbox};
use rusqlite::Connection;
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tempfile::TempDir;

/// An outbox next to a table of the application.
struct Shop {
    folder: TempDir,
}

impl Shop {
    fn new() -> Self {
        let shop = Self { folder: TempDir::new().unwrap() };
        SqliteStore::migrate(shop.path()).unwrap();
        shop.rusqlite().execute_batch("CREATE TABLE orders (id INTEGER)").unwrap();
        shop
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("shop.db")
    }

    fn rusqlite(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    async fn sqlx(&self) -> SqliteConnection {
        SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(self.path())).await.unwrap()
    }

    /// Makes the database refuse every event of type "bad".
    fn refuse_bad(&self) {
        let trigger = "CREATE TRIGGER refuse BEFORE INSERT ON postrider_events WHEN new.type = 'bad'
                       BEGIN SELECT RAISE(ABORT, 'no bad events here'); END";
        self.rusqlite().execute_batch(trigger).unwrap();
    }

    /// Types of the committed events, in order.
    fn types(&self) -> Vec<String> {
        let connection = self.rusqlite();
        let mut statement =
            connection.prepare("SELECT type FROM postrider_events ORDER BY position").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

fn event(event_type: &str) -> Event {
    Event::new(event_type, "{}")
}

#[test]
fn events_commit_and_roll_back_with_a_rusqlite_transaction() {
    let shop = Shop::new();
    let mut connection = shop.rusqlite();
    let outbox = Outbox::new();

    let tx = connection.transaction().unwrap();
    outbox.write(&tx, event("lost")).unwrap();
    outbox.write_all(&tx, [event("lost"), event("lost")]).unwrap();
    tx.rollback().unwrap();

    let tx = connection.transaction().unwrap();
    let first = event("kept");
    let written = outbox.write(&tx, &first).unwrap();
    assert_eq!((written.id, written.position.get()), (first.id, 1));
    let more = outbox.write_all(&tx, [event("kept too"), event("and this")]).unwrap();
    assert_eq!(more.iter().map(|written| written.position.get()).collect::<Vec<_>>(), [2, 3]);
    tx.commit().unwrap();
    assert_eq!(shop.types(), ["kept", "kept too", "and this"]);
}

#[tokio::test]
async fn events_commit_and_roll_back_with_a_sqlx_transaction() {
    let shop = Shop::new();
    let mut connection = shop.sqlx().await;
    let outbox = Outbox::new();

    let mut tx = connection.begin().await.unwrap();
    outbox.write(&mut tx, event("lost")).await.unwrap();
    outbox.write_all(&mut tx, [event("lost"), event("lost")]).await.unwrap();
    tx.rollback().await.unwrap();

    let mut tx = connection.begin().await.unwrap();
    let first = event("kept");
    let written = outbox.write(&mut *tx, &first).await.unwrap();
    assert_eq!((written.id, written.position.get()), (first.id, 1));
    let more = outbox.write_all(&mut tx, [event("kept too"), event("and this")]).await.unwrap();
    assert_eq!(more.iter().map(|written| written.position.get()).collect::<Vec<_>>(), [2, 3]);
    tx.commit().await.unwrap();
    assert_eq!(shop.types(), ["kept", "kept too", "and this"]);
}

#[test]
fn a_refused_event_leaves_a_rusqlite_transaction_usable_and_unchanged() {
    let shop = Shop::new();
    shop.refuse_bad();
    let mut connection = shop.rusqlite();
    let outbox = Outbox::new();
    let tx = connection.transaction().unwrap();
    tx.execute("INSERT INTO orders VALUES (1)", []).unwrap();

    let refused = outbox.write_all(&tx, [event("good"), event("")]).unwrap_err();
    assert_eq!(refused.code(), Code::TypeEmpty);
    let failed = outbox.write_all(&tx, [event("good"), event("good"), event("bad")]).unwrap_err();
    assert!(failed.report().contains("no bad events here"), "{failed}");
    outbox.write(&tx, event("bad")).unwrap_err();

    outbox.write(&tx, event("after")).unwrap();
    tx.execute("INSERT INTO orders VALUES (2)", []).unwrap();
    tx.commit().unwrap();
    assert_eq!(shop.types(), ["after"]);
    let orders: i64 = connection.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 2);
}

#[tokio::test]
async fn a_refused_event_leaves_a_sqlx_transaction_usable_and_unchanged() {
    let shop = Shop::new();
    shop.refuse_bad();
    let mut connection = shop.sqlx().await;
    let outbox = Outbox::new();
    let mut tx = connection.begin().await.unwrap();
    sqlx::query("INSERT INTO orders VALUES (1)").execute(&mut *tx).await.unwrap();

    let refused = outbox.write_all(&mut tx, [event("good"), event("")]).await.unwrap_err();
    assert_eq!(refused.code(), Code::TypeEmpty);
    let failed = outbox.write_all(&mut tx, [event("good"), event("bad")]).await.unwrap_err();
    assert!(failed.report().contains("no bad events here"), "{failed}");
    outbox.write(&mut tx, event("bad")).await.unwrap_err();

    outbox.write(&mut tx, event("after")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(shop.types(), ["after"]);
}

#[tokio::test]
async fn a_sqlx_write_that_is_dropped_halfway_leaves_none_of_its_events() {
    let shop = Shop::new();
    let mut connection = shop.sqlx().await;
    let outbox = Outbox::new();
    // Before the savepoint, in the middle, and at every other point at which a poll ends.
    for polls in 1..50 {
        let mut tx = connection.begin().await.unwrap();
        let mut dropped = outbox.write_all(&mut tx, (0..1000).map(|_| event("dropped")));
        for _ in 0..polls {
            tokio::select! { biased; _ = &mut dropped => panic!("too fast"), () = tokio::task::yield_now() => {} }
        }
        drop(dropped);
        outbox.write(&mut tx, event("after")).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(shop.types(), ["after"; 49]);
}

#[test]
fn an_explicit_key_is_stored_even_if_it_equals_the_aggregate_id() {
    let shop = Shop::new();
    let connection = shop.rusqlite();
    let about = |id: &str| event("order.placed").with_aggregate("Order", id);
    Outbox::new().write_all(&connection, [about("7"), about("7").with_key("7")]).unwrap();
    let mut statement = connection.prepare("SELECT key FROM postrider_events ORDER BY position").unwrap();
    let keys: Vec<Option<String>> =
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(keys, [None, Some("7".to_owned())], "only the second is ordered with every other key 7");
}

#[test]
fn the_outbox_fills_in_namespace_and_producer_where_the_event_has_none() {
    let shop = Shop::new();
    let connection = shop.rusqlite();
    let outbox = Outbox::new().namespace("shop").producer("node-1");
    outbox
        .write_all(&connection, [event("a"), event("b").with_namespace("own").with_producer("mine")])
        .unwrap();
    let sql =
        "SELECT group_concat(namespace || ' ' || producer, ', ' ORDER BY position) FROM postrider_events";
    let reported: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(reported, "shop node-1, own mine");
}

#[test]
fn each_outbox_has_its_own_limits() {
    let shop = Shop::new();
    let mut limits = Limits::default();
    limits.payload_bytes_max = 1;
    let error = Outbox::new().limits(limits).write(&shop.rusqlite(), event("large")).unwrap_err();
    assert_eq!(error.code(), Code::PayloadTooLarge);
}

#[test]
fn writing_no_events_runs_no_statement() {
    let nowhere = Connection::open_in_memory().unwrap();
    assert_eq!(Outbox::new().write_all(&nowhere, [] as [Event; 0]).unwrap(), []);
}

#[tokio::test]
async fn missing_tables_are_reported() {
    let nowhere = Connection::open_in_memory().unwrap();
    assert_eq!(Outbox::new().write(&nowhere, event("a")).unwrap_err().code(), Code::SchemaMissing);
    let mut nowhere = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let error = Outbox::new().write(&mut nowhere, event("a")).await.unwrap_err();
    assert_eq!(error.code(), Code::SchemaMissing);
}
