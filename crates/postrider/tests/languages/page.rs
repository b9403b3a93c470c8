//! The page `docs/src/any-language.md` lists the existing columns, and its warnings are true.

use std::collections::BTreeMap;

use mysql_async::prelude::Queryable;
use postrider::store::sqlite::SqliteStore;
use postrider_testkit::servers;
use postrider_testkit::servers::mysql::{Kind, Options};

use super::database::{self, Database};
use super::mysql;

const PAGE: &str = include_str!("../../../../docs/src/any-language.md");

/// The columns of the page's table that a database has, and what the page describes for an omitted value.
fn columns(database: &str) -> BTreeMap<String, String> {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.map(|row| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect::<Vec<_>>());
    let at = 1 + ["PostgreSQL", "MySQL", "SQLite"].iter().position(|name| *name == database).unwrap();
    let there = cells.filter(|cells| cells[at] != "none");
    there.map(|cells| (cells[0].to_owned(), cells[4].to_owned())).collect()
}

/// The page must mark exactly the columns without a default.
fn assert_named(database: &str, real: &BTreeMap<String, bool>) {
    let named = columns(database);
    assert_eq!(named.keys().collect::<Vec<_>>(), real.keys().collect::<Vec<_>>(), "{database}");
    for (column, must_be_given) in real {
        assert_eq!(
            named[column] == "must be given",
            *must_be_given,
            "{database}: {column}: {}",
            named[column]
        );
    }
}

/// The SQL after the name of a database.
fn insert(database: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("\n{database}:\n\n```sql\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_page_names_the_versions_of_the_drivers() {
    let manifests = [
        (
            "psycopg 3 | ",
            "psycopg==",
            include_str!("../../../../examples/any-language/python/requirements.txt"),
        ),
        (
            "PyMySQL | ",
            "PyMySQL==",
            include_str!("../../../../examples/any-language/python/requirements.txt"),
        ),
        ("pg | ", "\"pg\": \"", include_str!("../../../../examples/any-language/node/package.json")),
        ("pgx | ", "pgx/v5 v", include_str!("../../../../examples/any-language/go/go.mod")),
        (
            "org.postgresql | ",
            "<artifactId>postgresql</artifactId>\n      <version>",
            include_str!("../../../../examples/any-language/java/pom.xml"),
        ),
    ];
    let version = |text: &'static str, after: &str| {
        let rest = text.split_once(after).unwrap().1;
        rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap()
    };
    for (on_page, in_manifest, manifest) in manifests {
        assert_eq!(version(PAGE, on_page), version(manifest, in_manifest), "{on_page}");
    }
}

#[tokio::test]
async fn the_page_lists_every_column_of_postgres_and_the_required_ones() {
    if !database::is_available() {
        return;
    }
    let database = Database::new("languages_page", super::ORDERS).await;
    let sql = "SELECT column_name::text, is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'
               FROM information_schema.columns WHERE table_schema = 'postrider' AND table_name = 'events'";
    let rows = database.client.query(sql, &[]).await.unwrap();
    assert_named("PostgreSQL", &rows.iter().map(|row| (row.get(0), row.get(1))).collect());
    assert_eq!(database.client.execute(insert("PostgreSQL"), &[]).await.unwrap(), 1);
    database.remove().await;
}

#[tokio::test]
async fn the_page_lists_every_column_of_mysql_and_the_required_ones() {
    for kind in Kind::ALL {
        let Some(server) = servers::mysql::own(Options::of(kind)) else { continue };
        let database = mysql::Database::new(server, super::ORDERS).await;
        let sql = "SELECT column_name, is_nullable = 'NO' AND column_default IS NULL AND extra <> 'auto_increment'
                   FROM information_schema.columns WHERE table_schema = 'postrider' AND table_name = 'events'";
        let mut connection = database.connect().await;
        let columns: Vec<(String, bool)> = connection.query(sql).await.unwrap();
        assert_named("MySQL", &columns.into_iter().collect());
        connection.query_drop(insert("MySQL and MariaDB")).await.unwrap();
        assert_eq!(connection.affected_rows(), 1);
    }
}

#[test]
fn the_page_lists_every_column_of_sqlite_and_the_required_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    SqliteStore::migrate(&path).unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    let sql = r#"SELECT name, "notnull" AND dflt_value IS NULL AND NOT pk FROM pragma_table_info('postrider_events')"#;
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_named("SQLite", &rows.map(Result::unwrap).collect());
    assert_eq!(db.execute(insert("SQLite"), []).unwrap(), 1);
}

#[tokio::test]
async fn text_for_a_payload_of_postgres_is_read_as_bytea_unless_it_is_converted() {
    if !database::is_available() {
        return;
    }
    let database = Database::new("languages_text", super::ORDERS).await;
    let insert = |value: &str| format!("INSERT INTO postrider.events (type, payload) VALUES ('a', {value})");
    let refused = database.client.batch_execute(&insert(r#"'{"a":"x\ny"}'"#)).await;
    assert!(refused.is_err(), "the server interprets the backslash as an escape");
    database.client.batch_execute(&insert(r#"'{"a":"\\d"}'"#)).await.unwrap();
    database.client.batch_execute(&insert(r#"convert_to('{"a":"x\ny"}', 'UTF8')"#)).await.unwrap();
    let rows =
        database.client.query("SELECT payload FROM postrider.events ORDER BY position", &[]).await.unwrap();
    let payloads: Vec<Vec<u8>> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(payloads, [br#"{"a":"\d"}"#.to_vec(), br#"{"a":"x\ny"}"#.to_vec()]);
    database.remove().await;
}

#[tokio::test]
async fn a_writer_cannot_set_the_columns_that_completeness_depends_on() {
    if !database::is_available() {
        return;
    }
    let database = Database::new("languages_rights", super::ORDERS).await;
    let (writer, connection) =
        tokio_postgres::connect(&database.writer_url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for column in ["tx", "position"] {
        let sql = format!("INSERT INTO postrider.events ({column}, type, payload) VALUES ('1', 'a', '')");
        let error = writer.batch_execute(&sql).await.unwrap_err();
        let code = error.code().map(|code| code.code().to_owned());
        // Insufficient privilege; a value for a column that is always generated.
        assert!(matches!(code.as_deref(), Some("42501" | "428C9")), "{column}: {error:?}");
    }
    database.remove().await;
}
