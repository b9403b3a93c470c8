//! Positions that are taken and not committed: no event is skipped, and none is delayed longer than necessary.

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use postrider::store::Store;
use postrider::store::mysql::MySqlStore;
use postrider::{Error, Event, Result};
use postrider_testkit::servers::mysql::{Kind, Options, Server, own};
use tokio::time::Instant;

use super::case::{Case, MariaDb, MySql, ServerKind, case, done, failed};
use crate::holes::{self, HoleCase, Reader};

impl<W: ServerKind> HoleCase for Case<W> {
    type Writer = Conn;

    async fn open_store(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(self.store().await?))
    }

    async fn open_store_with_holes_max(&self, holes_max: usize) -> Result<Box<dyn Store>> {
        Ok(Box::new(MySqlStore::connect(&self.config.clone().holes_max(holes_max)).await?))
    }

    async fn committed(&self, event: &str) -> Result<i64> {
        Case::committed(self, event).await
    }

    async fn begin(&self) -> Result<Conn> {
        let mut writer = self.another().await?;
        self.on(&mut writer, "START TRANSACTION").await?;
        Ok(writer)
    }

    async fn begin_global(&self, name: &str) -> Result<Conn> {
        let mut writer = self.another().await?;
        self.on(&mut writer, &format!("XA START '{{schema}} {name}'")).await?;
        Ok(writer)
    }

    async fn write(&self, writer: &mut Conn, event: &str) -> Result<()> {
        self.insert(writer, &[Event::new(event, "")]).await.map(|_| ())
    }

    async fn write_many(&self, writer: &mut Conn) -> Result<i64> {
        // MariaDB does not have this variable, and needs none.
        _ = self.on(writer, "SET SESSION cte_max_recursion_depth = 10000").await;
        let insert = "INSERT INTO {schema}.events (type, payload)
                      WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 900)
                      SELECT 'bulk', '' FROM n AS a JOIN (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS b";
        self.on(writer, insert).await?;
        Ok(2700)
    }

    async fn execute(&self, writer: &mut Conn, sql: &str) -> Result<()> {
        self.on(writer, sql).await
    }

    async fn prepare(&self, writer: &mut Conn, name: &str) -> Result<()> {
        self.on(writer, &format!("XA END '{{schema}} {name}'; XA PREPARE '{{schema}} {name}'")).await
    }

    async fn disconnect(&self, writer: Conn) -> Result<()> {
        writer.disconnect().await.map_err(failed)
    }

    async fn commit_prepared(&self, name: &str) -> Result<()> {
        end_prepared(self, &format!("XA COMMIT '{{schema}} {name}'")).await
    }

    async fn roll_back_prepared(&self, name: &str) -> Result<()> {
        end_prepared(self, &format!("XA ROLLBACK '{{schema}} {name}'")).await
    }
}

/// Repeats a statement until it succeeds: a server may not have noticed yet that a connection is closed.
async fn end_prepared<W: ServerKind>(case: &Case<W>, sql: &str) -> Result<()> {
    while case.run(sql).await.is_err() {
        tokio::task::yield_now().await;
    }
    Ok(())
}

case! {
    async fn a_late_commit_is_delivered_after_earlier_commits(case) {
        holes::a_late_commit_is_delivered_after_earlier_commits(&case).await?;
    }
}

case! {
    /// One that wrote to another table, and one that writes events but began after the hole was noticed.
    async fn a_rolled_back_position_dies_while_others_stay_open(case) {
        case.run("CREATE TABLE {schema}.orders (id INT PRIMARY KEY)").await?;
        let mut elsewhere = case.another().await?;
        case.on(&mut elsewhere, "START TRANSACTION; INSERT INTO {schema}.orders VALUES (1)").await?;
        let mut gone = case.writing("gone").await?;
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_a_hole(1).await?;
        let _later = case.writing("later").await?;
        reader.stays_a_hole(1).await?;
        case.on(&mut gone, "ROLLBACK").await?;
        reader.until_empty(1).await?;
        assert_eq!(reader.read, [2]);
    }
}

case! {
    /// It has written events and is idle now: positions that others take and roll back meanwhile do not belong to it.
    async fn an_open_transaction_does_not_keep_holes_of_others_open(case) {
        let mut open = case.writing("open").await?;
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_a_hole(1).await?;
        case.run("START TRANSACTION; INSERT INTO {schema}.events (type, payload) VALUES ('gone', ''); ROLLBACK").await?;
        case.committed("kept").await?;
        reader.until_empty(3).await?;
        assert!(!reader.is_empty_at(1));
        // It continues, and the next position belongs to it.
        case.insert(&mut open, &[Event::new("later", "")]).await?;
        case.committed("kept").await?;
        reader.stays_a_hole(5).await?;
        case.on(&mut open, "COMMIT").await?;
        while reader.claim().await?.holes > 0 {}
        assert_eq!(reader.read, [2, 4, 6, 1, 5]);
    }
}

case! {
    /// It waits for a lock before it takes its position. Although it has begun no other statement since and is idle
    /// now, it was not idle in between.
    async fn a_statement_that_runs_while_it_is_listed_is_not_idle(case) {
        let mut gate = case.another().await?;
        case.on(&mut gate, "DO GET_LOCK('{schema}', 0)").await?;
        let mut late = case.writing("late").await?;
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_a_hole(1).await?;
        let insert = case.sql("INSERT INTO {schema}.events (type, payload) SELECT 'later', GET_LOCK('{schema}', 60)");
        let running = tokio::spawn(async move {
            late.query_drop(insert).await.map_err(failed)?;
            Ok::<_, Error>(late)
        });
        let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' AND info LIKE '%{schema}.%'";
        while case.one::<i64>(waits).await? == 0 {}
        reader.stays_a_hole(1).await?;
        case.on(&mut gate, "DO RELEASE_LOCK('{schema}')").await?;
        let mut late = running.await.map_err(failed)??;
        // An INSERT ... SELECT first takes one position.
        assert_eq!(case.committed("fast").await?, 4);
        reader.stays_a_hole(3).await?;
        case.on(&mut late, "COMMIT").await?;
        while reader.claim().await?.holes > 0 {}
        assert_eq!(reader.read, [2, 4, 1, 3]);
    }
}

case! {
    /// The counter of its statements restarts at every reset of the connection, which connection pools do.
    async fn a_connection_that_was_reset_and_repeated_its_statements_is_not_idle(case) {
        let mut busy = case.another().await?;
        let mut reader = Reader::on(&case).await?;
        let mut expected = Vec::new();
        for round in 0..10 {
            busy.reset().await.map_err(failed)?;
            case.on(&mut busy, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION").await?;
            case.insert(&mut busy, &[Event::new("late", "")]).await?;
            case.committed("fast").await?;
            reader.stays_a_hole(2 * round + 1).await?;
            case.on(&mut busy, "COMMIT").await?;
            expected.extend([2 * round + 2, 2 * round + 1]);
        }
        while reader.claim().await?.holes > 0 {}
        assert_eq!(reader.read, expected);
    }
}

case! {
    async fn a_prepared_transaction_does_not_keep_holes_of_others_open(case) {
        prepared_transactions_keep_only_their_own_holes_open(&case).await?;
    }
}

/// Prepared, with and without its connection.
async fn prepared_transactions_keep_only_their_own_holes_open<W: ServerKind>(case: &Case<W>) -> Result<()> {
    let (mut left, mut held) = (case.begin_global("left").await?, case.begin_global("held").await?);
    for (writer, name) in [(&mut left, "left"), (&mut held, "held")] {
        case.write(writer, name).await?;
        case.prepare(writer, name).await?;
    }
    left.disconnect().await.map_err(failed)?;
    case.committed("kept").await?;
    let mut reader = Reader::on(case).await?;
    reader.stays_a_hole(1).await?;
    case.run("START TRANSACTION; INSERT INTO {schema}.events (type, payload) VALUES ('gone', ''); ROLLBACK")
        .await?;
    case.committed("kept").await?;
    reader.until_empty(4).await?;
    case.on(&mut held, "XA COMMIT '{schema} held'").await?;
    case.commit_prepared("left").await?;
    while reader.claim().await?.holes > 0 {}
    let mut late = reader.read.split_off(2);
    late.sort_unstable();
    assert_eq!((reader.read, late), (vec![3, 5], vec![1, 2]));
    Ok(())
}

case! {
    /// Its next transactions did not take the position.
    async fn a_connection_that_keeps_writing_does_not_keep_its_old_holes_open(case) {
        let mut busy = case.writing("gone").await?;
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_a_hole(1).await?;
        case.on(&mut busy, "ROLLBACK").await?;
        // It has the outbox open at every poll.
        for _ in 0..3 {
            case.on(&mut busy, "COMMIT; START TRANSACTION").await?;
            case.insert(&mut busy, &[Event::new("open", "")]).await?;
            reader.claim().await?;
        }
        assert!(reader.is_empty_at(1), "{:?}", reader.empty);
    }
}

case! {
    async fn a_prepared_transaction_keeps_its_positions_open(case) {
        holes::a_prepared_transaction_keeps_its_positions_open(&case).await?;
    }
}

#[tokio::test]
async fn a_prepared_transaction_keeps_its_positions_open_with_only_the_plugin() -> Result<()> {
    let Some(server) = own(with_nothing_but_the_plugin()) else { return Ok(()) };
    let case = Case::<MariaDb>::at(server.url()).await?;
    MySqlStore::migrate(&case.config).await?;
    holes::a_prepared_transaction_keeps_its_positions_open(&case).await
}

/// The plugin lists connections; their activity comes from another list.
#[tokio::test]
async fn an_idle_transaction_is_not_waited_for_with_only_the_plugin() -> Result<()> {
    let Some(server) = own(with_nothing_but_the_plugin()) else { return Ok(()) };
    let case = Case::<MariaDb>::at(server.url()).await?;
    MySqlStore::migrate(&case.config).await?;
    prepared_transactions_keep_only_their_own_holes_open(&case).await
}

/// Its lock was taken while locks were not recorded, so no list will ever contain it.
#[tokio::test]
async fn an_uncommitted_event_keeps_its_position_open_whichever_session_wrote_it() -> Result<()> {
    let Some(server) = own(Options::of(Kind::MariaDb)) else { return Ok(()) };
    let case = Case::<MariaDb>::at(server.url()).await?;
    MySqlStore::migrate(&case.config).await?;
    let instrument = |word: &str| {
        format!(
            "UPDATE performance_schema.setup_instruments SET enabled = '{word}' WHERE name = 'wait/lock/metadata/sql/mdl'"
        )
    };
    case.run(&instrument("NO")).await?;
    let mut late = case.writing("late").await?;
    case.run(&instrument("YES")).await?;
    assert_eq!(MySqlStore::writers(&case.config).await?, Some(0));
    case.committed("fast").await?;
    // One lists the writers at every poll, the other one polls more often than it lists them.
    let config = case.config.clone().check_rollbacks_after(Duration::from_millis(100));
    let mut readers = [Reader::on(&case).await?, Reader::of(&MySqlStore::connect(&config).await?)];
    for reader in &mut readers {
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            reader.stays_a_hole(1).await?;
        }
    }
    case.on(&mut late, "COMMIT").await?;
    for reader in &mut readers {
        while reader.claim().await?.holes > 0 {}
        assert_eq!(reader.read, [2, 1]);
    }
    Ok(())
}

fn with_nothing_but_the_plugin() -> Options {
    let options = Options::of(Kind::MariaDb).setting("performance_schema=OFF");
    options.setting("plugin_load_add=metadata_lock_info")
}

/// The server was restarted in between, and lists its own thread as the owner, or none.
async fn recovered_transactions_keep_their_positions_open<W: ServerKind>(server: Server) -> Result<()> {
    let case = Case::<W>::at(server.url()).await?;
    MySqlStore::migrate(&case.config).await?;
    let (mut late, mut gone) = (case.another().await?, case.another().await?);
    for (client, name) in [(&mut late, "late"), (&mut gone, "gone")] {
        case.on(client, &format!("XA START '{name}'")).await?;
        case.insert(client, &[Event::new(name, "")]).await?;
        case.on(client, &format!("XA END '{name}'; XA PREPARE '{name}'")).await?;
    }
    case.committed("fast").await?;
    done(server.kill())?;
    done(server.start())?;
    let mut client = case.another().await?;
    let mut reader = Reader::on(&case).await?;
    reader.stays_a_hole(1).await?;
    reader.stays_a_hole(2).await?;
    case.on(&mut client, "XA COMMIT 'late'; XA ROLLBACK 'gone'").await?;
    reader.until_empty(2).await?;
    assert_eq!((reader.read.as_slice(), reader.is_empty_at(1)), (&[3, 1][..], false));
    Ok(())
}

#[tokio::test]
async fn a_prepared_transaction_recovered_by_mysql_keeps_its_positions_open() -> Result<()> {
    let Some(server) = own(Options::of(Kind::MySql)) else { return Ok(()) };
    recovered_transactions_keep_their_positions_open::<MySql>(server).await
}

#[tokio::test]
async fn a_prepared_transaction_recovered_by_mariadb_keeps_its_positions_open() -> Result<()> {
    let Some(server) = own(with_nothing_but_the_plugin()) else { return Ok(()) };
    recovered_transactions_keep_their_positions_open::<MariaDb>(server).await
}

case! {
    async fn positions_rolled_back_to_a_savepoint_die_and_the_rest_is_delivered(case) {
        holes::positions_rolled_back_to_a_savepoint_die_and_the_rest_is_delivered(&case).await?;
    }
}

case! {
    /// Under `LOCK TABLES`, an INSERT uses another lock than usual.
    async fn a_session_that_locked_the_table_counts_as_a_writer(case) {
        let mut locker = case.another().await?;
        case.on(&mut locker, "SET autocommit = 0; LOCK TABLES {schema}.events WRITE").await?;
        case.insert(&mut locker, &[Event::new("late", "")]).await?;
        // No session can read now. The lock of a writer is listed from its beginning to its end.
        assert_eq!(MySqlStore::writers(&case.config).await?, Some(1));
        case.on(&mut locker, "COMMIT; UNLOCK TABLES").await?;
        assert_eq!(MySqlStore::writers(&case.config).await?, Some(0));
    }
}

case! {
    /// The server does not know the number of rows in advance: it reserves more positions than the statement uses.
    async fn a_large_late_transaction_is_read_in_order_page_by_page(case) {
        let mut reader = holes::a_large_late_transaction_is_read_in_order_page_by_page(&case).await?;
        reader.until_empty(2701).await?;
    }
}

case! {
    async fn too_many_holes_pause_the_tail_and_are_reported_until_one_closes(case) {
        holes::too_many_holes_pause_the_tail_and_are_reported_until_one_closes(&case).await?;
    }
}

case! {
    /// The server's default would let an open locking read at the end of the table block every INSERT.
    async fn the_locks_of_a_relay_block_no_writer(case) {
        case.committed("first").await?;
        let store = case.store().await?;
        store.subscribe("s", postrider::store::Start::Now).await?;
        let mut reading = case.another().await?;
        case.on(&mut reading, "START TRANSACTION; SELECT * FROM {schema}.events WHERE position > 1 FOR UPDATE").await?;
        case.committed("second").await?;
    }
}
