//! Properties of the SQLite store: its file, its schema, and other programs that use them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;

use postrider::ledger::Progress;
use postrider::store::sqlite::SqliteStore;
use postrider::store::{Budget, Claimed, Claimer, Migrated, Page, Start, Store};
use postrider::{Code, Event, Outbox, Position, Result};
use rusqlite::Connection;
use tempfile::TempDir;

fn file() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("outbox.db");
    (folder, path)
}

fn migrated() -> (TempDir, PathBuf) {
    let (folder, path) = file();
    SqliteStore::migrate(&path).unwrap();
    (folder, path)
}

async fn claim(claimer: &mut Box<dyn Claimer>) -> Result<Page> {
    match claimer.claim(Budget::new(10_000, usize::MAX)).await? {
        Claimed::Page(page) => Ok(page),
        Claimed::HistoryChanged(why) => panic!("the history did not change: {why}"),
    }
}

#[test]
fn migrating_twice_does_the_work_once() {
    let (_folder, path) = file();
    assert_eq!(SqliteStore::migrate(&path).unwrap(), Migrated { from: 0, to: 5 });
    assert_eq!(SqliteStore::migrate(&path).unwrap(), Migrated { from: 5, to: 5 });
}

#[test]
fn a_view_in_the_place_of_a_table_is_refused_and_triggers_are_named() {
    let (_folder, path) = migrated();
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "CREATE TRIGGER sly AFTER INSERT ON postrider_events BEGIN DELETE FROM postrider_parked; END",
        )
        .unwrap();
    assert_eq!(SqliteStore::triggers(&path).unwrap(), ["sly on postrider_events"]);
    connection
        .execute_batch(
            "DROP TABLE postrider_events;
             CREATE VIEW postrider_events AS SELECT * FROM postrider_parked",
        )
        .unwrap();
    let refused = SqliteStore::open(&path).unwrap_err();
    assert_eq!(refused.code(), Code::SchemaAltered, "{refused}");
}

#[test]
fn connections_of_the_store_do_not_trust_the_schema_and_cannot_damage_the_file() {
    let (_folder, path) = migrated();
    for connection in [SqliteStore::connect(&path).unwrap(), SqliteStore::connect_read_only(&path).unwrap()] {
        let trusted: i64 = connection.query_row("PRAGMA trusted_schema", [], |row| row.get(0)).unwrap();
        assert_eq!(trusted, 0);
        connection.execute_batch("PRAGMA writable_schema = ON").unwrap();
        assert!(connection.execute("UPDATE sqlite_schema SET sql = 'x'", []).is_err());
    }
}

#[test]
fn concurrent_migrations_do_the_work_once() {
    let (_folder, path) = file();
    let together = Barrier::new(8);
    let migrate = || {
        together.wait();
        SqliteStore::migrate(&path).unwrap()
    };
    let all: Vec<Migrated> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(migrate)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().filter(|migrated| migrated.from == 0).count(), 1, "{all:?}");
    SqliteStore::open(&path).unwrap();
}

#[test]
fn a_missing_file_and_a_file_without_tables_are_schema_missing() {
    let (_folder, path) = file();
    assert_eq!(SqliteStore::open(&path).unwrap_err().code(), Code::SchemaMissing);
    assert!(!path.exists(), "looking does not create it");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE orders (id INTEGER)").unwrap();
    assert_eq!(SqliteStore::open(&path).unwrap_err().code(), Code::SchemaMissing);
}

#[test]
fn a_newer_schema_is_refused_and_not_modified() {
    let (_folder, path) = migrated();
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("INSERT INTO postrider_migrations VALUES (1000, 0)").unwrap();
    assert_eq!(SqliteStore::open(&path).unwrap_err().code(), Code::SchemaNewer);
    assert_eq!(SqliteStore::migrate(&path).unwrap_err().code(), Code::SchemaNewer);
}

#[test]
fn a_file_that_is_not_a_database_is_an_error_that_names_it() {
    let (_folder, path) = file();
    std::fs::write(&path, "this is a letter, not a database, and long enough to be sure of that").unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert_eq!(error.code(), Code::StoreFailed);
    assert!(error.report().contains("not a database"), "{error}");
}

/// The rows of clients in other languages: text and bytes, no id, an id in capitals, an id as bytes.
const PYTHON: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("""INSERT INTO postrider_events(type, aggregate_type, aggregate_id, payload)
              VALUES ('order.placed', 'Order', '7', '{"a":1}')""")
db.execute("INSERT INTO postrider_events(type, payload) VALUES ('order.placed', ?)", (b'{"a":1}',))
db.execute("INSERT INTO postrider_events(id, type, payload) VALUES ('0195F000-7000-7000-8000-00000000ABCD', 'b', '')")
db.execute("INSERT INTO postrider_events(id, type, payload, headers) VALUES (?, 'b', x'ff00', '{\"a\":\"b\",\"n\":5}')",
           (bytes(range(16)),))
db.commit()
"#;

#[tokio::test]
async fn an_insert_statement_from_another_language_is_enough() {
    let (_folder, path) = migrated();
    let python = match Command::new("python3").arg("-c").arg(PYTHON).arg(&path).output() {
        Ok(output) => output,
        Err(reason) => {
            println!("SKIPPED: python3 cannot be run: {reason}");
            return;
        }
    };
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));

    let store = SqliteStore::open(&path).unwrap();
    let events = claim(&mut store.claimer(&Progress::default())).await.unwrap().events;
    let payloads: Vec<&[u8]> = events.iter().map(|stored| stored.event.payload.as_ref()).collect();
    assert_eq!(payloads, [br#"{"a":1}"#.as_slice(), br#"{"a":1}"#, b"", b"\xff\x00"]);
    assert_eq!(events[0].event.message_key(), Some("7"));
    for made in &events[..2] {
        let made_at = made.event.id.get_timestamp().map(|time| time.to_unix());
        let millis = made_at
            .map(|(seconds, nanos)| i64::try_from(seconds).unwrap() * 1000 + i64::from(nanos) / 1_000_000);
        assert_eq!(made.event.id.get_version_num(), 7);
        assert_eq!(millis, Some(made.event.time.as_micros() / 1000), "the id and the time are of one moment");
    }
    assert_ne!(events[0].event.id, events[1].event.id);
    assert_eq!(events[2].event.id.to_string(), "0195f000-7000-7000-8000-00000000abcd");
    assert_eq!(events[3].event.id.to_string(), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    assert_eq!(events[3].event.headers.get("a"), Some("b"));
    assert_eq!(events[3].event.headers.get("n"), Some("5"), "a number is carried as its text");
}

#[test]
fn the_table_refuses_what_a_relay_could_not_read() {
    let (_folder, path) = migrated();
    let connection = Connection::open(&path).unwrap();
    for values in [
        "(id, type, payload) VALUES ('not a uuid', 'a', '')",
        "(id, type, payload) VALUES (x'00', 'a', '')",
        "(type, payload) VALUES ('', '')",
        "(type, payload) VALUES ('a', NULL)",
        "(type, payload) VALUES ('a', 5)",
        "(type, payload, headers) VALUES ('a', '', '[1]')",
        "(type, payload, headers) VALUES ('a', '', '{')",
        "(type, payload, time) VALUES ('a', '', 'yesterday')",
        "(type, payload, max_attempts) VALUES ('a', '', 0)",
        "(type, payload, aggregate_id) VALUES ('a', '', '7')",
    ] {
        assert!(
            connection.execute(&format!("INSERT INTO postrider_events {values}"), []).is_err(),
            "{values}"
        );
    }
}

#[tokio::test]
async fn a_damaged_row_is_reported_and_stops_no_other() {
    let (_folder, path) = migrated();
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "INSERT INTO postrider_events(type, payload) VALUES ('a', '');
             INSERT INTO postrider_events(type, payload, action) VALUES ('b', '', '{\"id\":1}');
             INSERT INTO postrider_events(type, payload) VALUES ('c', '');",
        )
        .unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let page = claim(&mut store.claimer(&Progress::default())).await.unwrap();
    let types: Vec<&str> = page.events.iter().map(|stored| stored.event.event_type.as_str()).collect();
    assert_eq!(types, ["a", "c"]);
    let [(position, why)] = &page.damaged[..] else { panic!("{:?}", page.damaged) };
    assert_eq!(position.get(), 2);
    assert!(why.contains("position 2") && why.contains("action"), "{why}");
    let fetched = store.fetch(vec![*position], usize::MAX).await.unwrap();
    assert_eq!((fetched.events.len(), fetched.gone), (0, vec![*position]));
}

#[tokio::test]
async fn the_outbox_can_be_read_as_json() {
    let (_folder, path) = migrated();
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "INSERT INTO postrider_events(id, type, payload, time)
             VALUES ('0195F000-7000-7000-8000-00000000ABCD', 'a', CAST('{\"a\":1}' AS BLOB), -1),
                    (x'000102030405060708090a0b0c0d0e0f', 'a', x'ff00', 1763242500123456)",
        )
        .unwrap();
    let mut statement = connection.prepare("SELECT id, payload, time FROM postrider_events_json").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let rows: Vec<(String, String, String)> = rows.map(Result::unwrap).collect();
    let row = |id: &str, payload: &str, time: &str| (id.to_owned(), payload.to_owned(), time.to_owned());
    assert_eq!(
        rows,
        [
            row("0195f000-7000-7000-8000-00000000abcd", "{\"a\":1}", "1969-12-31T23:59:59.999999Z"),
            row("00010203-0405-0607-0809-0a0b0c0d0e0f", "FF00", "2025-11-15T21:35:00.123456Z"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_lose_nothing_and_leave_no_hole() {
    const WRITERS: usize = 3;
    const EVENTS: usize = 200;
    let (_folder, path) = migrated();
    let store = SqliteStore::open(&path).unwrap();
    let mut claimer = store.claimer(&Progress::default());
    let write = |path: PathBuf| {
        move || {
            let mut connection = Connection::open(path).unwrap();
            connection.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
            for n in 0..EVENTS {
                let immediate = rusqlite::TransactionBehavior::Immediate;
                let tx = connection.transaction_with_behavior(immediate).unwrap();
                Outbox::new().write(&tx, Event::new("busy", "{}")).unwrap();
                // Every third one writes and rolls back.
                if n % 3 == 0 { tx.rollback().unwrap() } else { tx.commit().unwrap() }
            }
        }
    };
    let writers: Vec<_> = (0..WRITERS).map(|_| tokio::task::spawn_blocking(write(path.clone()))).collect();
    let expected = WRITERS * (0..EVENTS).filter(|n| n % 3 != 0).count();
    let mut read = Vec::new();
    while read.len() < expected {
        let page = claim(&mut claimer).await.unwrap();
        assert_eq!(page.empty_positions, [], "a rolled back transaction leaves no hole");
        read.extend(page.events.into_iter().map(|stored| stored.position.get()));
    }
    assert!(read.iter().copied().eq(1..=i64::try_from(expected).unwrap()));
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(claim(&mut claimer).await.unwrap().events, []);
}

#[tokio::test]
async fn starting_at_a_position_beyond_the_end_starts_at_the_end() {
    let (_folder, path) = migrated();
    let store = SqliteStore::open(&path).unwrap();
    store.subscribe("early", Start::Position(Position::new(100))).await.unwrap();
    let sql = "SELECT done FROM postrider_subscriptions WHERE name = 'early'";
    let done: String = Connection::open(&path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
    assert_eq!(done, "0");
}

fn files_beside(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn reading_an_idle_file_leaves_it_unchanged() {
    let (_folder, path) = migrated();
    let before = (std::fs::read(&path).unwrap(), files_beside(&path));
    assert_eq!(SqliteStore::read_overview(&path, 10).unwrap().subscriptions, []);
    assert_eq!(SqliteStore::schema(&path).unwrap().found, 5);
    assert!(before == (std::fs::read(&path).unwrap(), files_beside(&path)));
}

#[test]
fn reading_a_missing_file_creates_none() {
    let (_folder, path) = file();
    assert_eq!(SqliteStore::schema(&path).unwrap().found, 0);
    assert_eq!(SqliteStore::read_overview(&path, 10).unwrap_err().code(), Code::SchemaMissing);
    assert_eq!(SqliteStore::connect(&path).unwrap_err().code(), Code::SchemaMissing);
    assert!(!path.exists());
}

#[test]
fn migrations_that_are_run_manually_create_the_same_schema() {
    let folder = TempDir::new().unwrap();
    let (ours, by_hand) = (folder.path().join("ours.db"), folder.path().join("by_hand.db"));
    SqliteStore::migrate(&ours).unwrap();
    let connection = Connection::open(&by_hand).unwrap();
    for migration in SqliteStore::migrations() {
        connection.execute_batch(&format!("BEGIN;\n{}COMMIT;", migration.sql)).unwrap();
    }
    drop(connection);
    let tables = |path: &Path| -> Vec<String> {
        let connection = Connection::open(path).unwrap();
        let sql = "SELECT name || coalesce(sql, '') FROM sqlite_schema ORDER BY name";
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    assert_eq!(tables(&by_hand), tables(&ours));
    assert_eq!(SqliteStore::schema(&by_hand).unwrap().found, 5);
    let migrated = SqliteStore::migrate(&by_hand).unwrap();
    assert_eq!((migrated.from, migrated.to), (5, 5));
}

#[tokio::test]
async fn a_closed_store_leaves_an_idle_file_and_refuses_calls() {
    let (_folder, path) = migrated();
    let store = SqliteStore::open(&path).unwrap();
    let clone = store.clone();
    store.subscribe("mail", Start::Now).await.unwrap();
    store.close().await;
    assert_eq!(files_beside(&path), ["outbox.db"]);
    assert_eq!(clone.subscribe("post", Start::Now).await.unwrap_err().code(), Code::StoreFailed);
    store.close().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_created_file_is_private_to_its_owner_and_an_existing_one_keeps_its_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (folder, path) = migrated();
    assert_eq!(mode(&path), 0o600);
    let store = SqliteStore::open(&path).unwrap();
    store.subscribe("orders", Start::Beginning).await.unwrap();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    let theirs = folder.path().join("theirs.db");
    std::fs::write(&theirs, "").unwrap();
    std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o644)).unwrap();
    SqliteStore::migrate(&theirs).unwrap();
    assert_eq!(mode(&theirs), 0o644);
}
