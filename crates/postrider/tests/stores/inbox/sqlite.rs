//! The inbox in a SQLite file, with rusqlite.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postrider::inbox::{Inbox, Once, Received};
use postrider::store::Store;
use postrider::store::sqlite::SqliteStore;
use postrider::{Code, Result};
use rusqlite::{Connection, OptionalExtension, params};
use tempfile::TempDir;
use uuid::Uuid;

use super::case::{Consumer, Delivery, End, InboxCase};
use crate::failed;

super::cases::inbox_tests!(SqliteInbox);

pub(crate) struct SqliteInbox {
    _folder: TempDir,
    path: PathBuf,
}

pub(crate) struct SqliteConsumer {
    path: PathBuf,
    connection: Option<Connection>,
}

impl InboxCase for SqliteInbox {
    type Consumer = SqliteConsumer;

    const NAME: &'static str = "SQLite";
    const IS_CONCURRENT: bool = false;
    const WAITING: Option<&'static str> = None;

    async fn new() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("mail.db");
        SqliteStore::migrate(&path).unwrap();
        let case = Self { _folder: folder, path };
        case.run("CREATE TABLE effects (consumer_group TEXT NOT NULL, event_id TEXT NOT NULL)").await;
        Some(case)
    }

    fn inbox(&self) -> Inbox {
        Inbox::new()
    }

    async fn consumer(&self) -> SqliteConsumer {
        SqliteConsumer { path: self.path.clone(), connection: Some(connect(&self.path)) }
    }

    async fn store(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(&self.path).unwrap())
    }

    async fn run(&self, sql: &str) {
        connect(&self.path).execute_batch(&sql.replace("{inbox}", "postrider_inbox")).unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        let sql = sql.replace("{inbox}", "postrider_inbox");
        connect(&self.path).query_row(&sql, [], |row| row.get(0)).unwrap()
    }

    fn days_from_now(days: i32) -> String {
        format!("CAST((julianday('now') + {days} - 2440587.5) * 86400000 AS INTEGER) * 1000")
    }

    fn id(id: Uuid) -> String {
        format!("'{id}'")
    }
}

fn connect(path: &PathBuf) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(60)).unwrap();
    connection.pragma_update(None, "synchronous", "OFF").unwrap();
    connection
}

impl SqliteConsumer {
    fn connection(&self) -> &Connection {
        self.connection.as_ref().unwrap()
    }
}

impl Consumer for SqliteConsumer {
    /// On another thread, because it waits for the transaction of another connection.
    async fn begin(&mut self) -> Result<()> {
        let connection = self.connection.take().unwrap();
        let begin = move || (connection.execute_batch("BEGIN IMMEDIATE"), connection);
        let (begun, connection) = tokio::task::spawn_blocking(begin).await.map_err(failed)?;
        self.connection = Some(connection);
        begun.map_err(failed)
    }

    async fn end(&mut self, is_committed: bool) -> Result<()> {
        let end = if is_committed { "COMMIT" } else { "ROLLBACK" };
        self.connection().execute_batch(end).map_err(failed)
    }

    async fn reconnect(&mut self) -> Result<()> {
        self.connection = Some(connect(&self.path));
        Ok(())
    }

    async fn receive(&mut self, inbox: &Inbox, Delivery { group, id, .. }: Delivery) -> Result<Received> {
        inbox.receive(self.connection(), group, id)
    }

    async fn once(&mut self, inbox: &Inbox, delivery: Delivery, end: End) -> Result<Once<()>> {
        let Delivery { group, id, .. } = delivery;
        inbox.once_blocking(self.connection(), group, id, |connection| effect(connection, delivery, end))
    }

    async fn effect(&mut self, delivery: Delivery, end: End) -> Result<()> {
        effect(self.connection(), delivery, end)
    }

    async fn has_row(&mut self, Delivery { group, id, .. }: Delivery) -> Result<bool> {
        let sql = "SELECT 1 FROM postrider_inbox WHERE consumer_group = ?1 AND event_id = ?2";
        let found = self.connection().query_row(sql, params![group, id.to_string()], |_| Ok(())).optional();
        Ok(found.map_err(failed)?.is_some())
    }

    async fn delete_expired(&mut self, inbox: &Inbox, rows_max: usize) -> Result<u64> {
        let connection = self.connection.as_mut().unwrap();
        let tx = connection.transaction().map_err(failed)?;
        let deleted = inbox.delete_expired(&tx, rows_max)?;
        tx.commit().map_err(failed).map(|()| deleted)
    }
}

fn effect(connection: &Connection, Delivery { group, id, .. }: Delivery, end: End) -> Result<()> {
    let insert = "INSERT INTO effects (consumer_group, event_id) VALUES (?1, ?2)";
    connection.execute(insert, params![group, id.to_string()]).map_err(failed)?;
    end.of_effect()
}

#[tokio::test]
async fn a_connection_without_a_transaction_is_refused() {
    let case = SqliteInbox::new().await.unwrap();
    let connection = connect(&case.path);
    let refused = case.inbox().receive(&connection, "mail", Uuid::now_v7()).unwrap_err();
    assert_eq!((refused.code(), case.rows().await), (Code::TransactionMissing, 0));
}

#[tokio::test]
async fn a_file_without_the_table_is_named_as_such() {
    let case = SqliteInbox::new().await.unwrap();
    case.run("DROP TABLE postrider_inbox").await;
    let mut connection = connect(&case.path);
    let tx = connection.transaction().unwrap();
    let missing = case.inbox().receive(&tx, "mail", Uuid::now_v7()).unwrap_err();
    assert_eq!(missing.code(), Code::SchemaMissing, "{missing}");
}

#[tokio::test]
async fn a_file_of_an_earlier_version_is_refused_until_it_is_migrated() {
    let case = SqliteInbox::new().await.unwrap();
    case.run(
        "DROP TABLE postrider_inbox; DROP TABLE postrider_actions; DROP TABLE postrider_audit;
         ALTER TABLE postrider_parked DROP COLUMN redelivery; ALTER TABLE postrider_relays DROP COLUMN facts;
         DELETE FROM postrider_migrations WHERE version >= 2",
    )
    .await;
    assert_eq!(SqliteStore::open(&case.path).unwrap_err().code(), Code::SchemaMissing);
    let migrated = SqliteStore::migrate(&case.path).unwrap();
    assert_eq!((migrated.from, migrated.to, case.rows().await), (1, 5, 0));
}
