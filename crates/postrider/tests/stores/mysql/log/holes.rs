//! Positions that are taken and not committed: nothing is skipped, nobody is waited for.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use postrider::ledger::{Intervals, Progress};
use postrider::store::mysql::MySqlStore;
use postrider::store::{Budget, Claimed, Claimer, Page, Store};
use postrider::{Error, Event, Position, Result};
use postrider_testkit::servers::mysql::{Kind, Options, Server, own};
use tokio::time::Instant;

use super::case::{Case, MariaDb, MySql, Which, case, done, failed};

/// A proof that did not come within this does not come.
const LONG: Duration = Duration::from_secs(60);

/// Claims in which a hole that must stay would be buried by a wrong rule.
const MANY: usize = 20;

const PLENTY: Budget = Budget { events_max: 1_000, bytes_max: 1 << 26 };

/// A claimer from the beginning, and what it has said so far.
pub(crate) struct Reader {
    claimer: Box<dyn Claimer>,
    pub(crate) read: Vec<i64>,
    dead: Intervals,
}

impl Reader {
    pub(crate) fn of(store: &MySqlStore) -> Self {
        Self { claimer: store.claimer(&Progress::default()), read: Vec::new(), dead: Intervals::default() }
    }

    pub(crate) async fn on<W: Which>(case: &Case<W>) -> Result<Self> {
        Ok(Self::of(&case.store().await?))
    }

    pub(crate) async fn claim(&mut self) -> Result<Page> {
        let Claimed::Page(page) = self.claimer.claim(PLENTY).await? else {
            panic!("the history did not change")
        };
        self.read.extend(page.events.iter().map(|event| event.position.get()));
        page.dead.iter().for_each(|(first, last)| self.dead.insert_range(*first, *last));
        Ok(page)
    }

    pub(crate) fn is_dead(&self, position: i64) -> bool {
        self.dead.contains(Position::new(position))
    }

    pub(crate) async fn until_dead(&mut self, position: i64) -> Result<()> {
        let waiting = async {
            while !self.is_dead(position) {
                self.claim().await?;
            }
            Ok(())
        };
        tokio::time::timeout(LONG, waiting).await.map_err(failed)?
    }

    pub(crate) async fn stays_alive(&mut self, position: i64) -> Result<()> {
        for _ in 0..MANY {
            self.claim().await?;
        }
        assert!(!self.is_dead(position), "{position} can still be committed");
        Ok(())
    }
}

case! {
    async fn a_late_commit_is_delivered_after_earlier_commits(case) {
        let mut reader = Reader::on(&case).await?;
        for _ in 1..=4 {
            case.committed("early").await?;
        }
        let mut late = case.writing("late").await?;
        case.committed("fast").await?;
        reader.claim().await?;
        assert_eq!(reader.read, [1, 2, 3, 4, 6]);
        reader.stays_alive(5).await?;
        case.on(&mut late, "COMMIT").await?;
        reader.claim().await?;
        assert_eq!(reader.read, [1, 2, 3, 4, 6, 5]);
        case.committed("next").await?;
        let page = reader.claim().await?;
        assert_eq!((page.holes, reader.read.last()), (0, Some(&7)));
    }
}

case! {
    /// One that wrote elsewhere, and one that writes events but came after the hole was seen.
    async fn a_rolled_back_position_dies_while_others_stay_open(case) {
        case.run("CREATE TABLE {schema}.orders (id INT PRIMARY KEY)").await?;
        let mut elsewhere = case.another().await?;
        case.on(&mut elsewhere, "START TRANSACTION; INSERT INTO {schema}.orders VALUES (1)").await?;
        let mut gone = case.writing("gone").await?;
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_alive(1).await?;
        let _later = case.writing("later").await?;
        reader.stays_alive(1).await?;
        case.on(&mut gone, "ROLLBACK").await?;
        reader.until_dead(1).await?;
        assert_eq!(reader.read, [2]);
    }
}

case! {
    /// It has written events, and then rests: what others take and give back meanwhile is not its own.
    async fn an_open_transaction_does_not_keep_holes_of_others_alive(case) {
        let mut open = case.writing("open").await?;
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_alive(1).await?;
        case.run("START TRANSACTION; INSERT INTO {schema}.events (type, payload) VALUES ('gone', ''); ROLLBACK").await?;
        case.committed("kept").await?;
        reader.until_dead(3).await?;
        assert!(!reader.is_dead(1));
        // It goes on, and what it takes now is its own again.
        case.insert(&mut open, &[Event::new("later", "")]).await?;
        case.committed("kept").await?;
        reader.stays_alive(5).await?;
        case.on(&mut open, "COMMIT").await?;
        while reader.claim().await?.holes > 0 {}
        assert_eq!(reader.read, [2, 4, 6, 1, 5]);
    }
}

case! {
    /// It waits for something before it takes its position. That it has begun no other statement since, and rests now, does
    /// not mean that it did nothing in between.
    async fn a_statement_that_runs_while_it_is_listed_is_not_idle(case) {
        let mut gate = case.another().await?;
        case.on(&mut gate, "DO GET_LOCK('{schema}', 0)").await?;
        let mut late = case.writing("late").await?;
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_alive(1).await?;
        let insert = case.sql("INSERT INTO {schema}.events (type, payload) SELECT 'later', GET_LOCK('{schema}', 60)");
        let running = tokio::spawn(async move {
            late.query_drop(insert).await.map_err(failed)?;
            Ok::<_, Error>(late)
        });
        let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' AND info LIKE '%{schema}.%'";
        while case.one::<i64>(waits).await? == 0 {}
        reader.stays_alive(1).await?;
        case.on(&mut gate, "DO RELEASE_LOCK('{schema}')").await?;
        let mut late = running.await.map_err(failed)??;
        // An INSERT ... SELECT takes its first position alone.
        assert_eq!(case.committed("fast").await?, 4);
        reader.stays_alive(3).await?;
        case.on(&mut late, "COMMIT").await?;
        while reader.claim().await?.holes > 0 {}
        assert_eq!(reader.read, [2, 4, 1, 3]);
    }
}

case! {
    /// What counts its statements begins again at every reset, as a pool of connections does it.
    async fn a_connection_that_was_reset_and_repeated_its_statements_is_not_idle(case) {
        let mut busy = case.another().await?;
        let mut reader = Reader::on(&case).await?;
        let mut expected = Vec::new();
        for round in 0..10 {
            busy.reset().await.map_err(failed)?;
            case.on(&mut busy, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION").await?;
            case.insert(&mut busy, &[Event::new("late", "")]).await?;
            case.committed("fast").await?;
            reader.stays_alive(2 * round + 1).await?;
            case.on(&mut busy, "COMMIT").await?;
            expected.extend([2 * round + 2, 2 * round + 1]);
        }
        while reader.claim().await?.holes > 0 {}
        assert_eq!(reader.read, expected);
    }
}

case! {
    async fn an_undecided_prepared_transaction_does_not_keep_holes_of_others_alive(case) {
        undecided_transactions_keep_only_their_own_holes_alive(&case).await?;
    }
}

/// Prepared and left behind, and prepared and held on to.
async fn undecided_transactions_keep_only_their_own_holes_alive<W: Which>(case: &Case<W>) -> Result<()> {
    let (mut left, mut held) = (case.another().await?, case.another().await?);
    for (client, name) in [(&mut left, "left"), (&mut held, "held")] {
        case.on(client, &format!("XA START '{{schema}} {name}'")).await?;
        case.insert(client, &[Event::new(name, "")]).await?;
        case.on(client, &format!("XA END '{{schema}} {name}'; XA PREPARE '{{schema}} {name}'")).await?;
    }
    left.disconnect().await.map_err(failed)?;
    case.committed("kept").await?;
    let mut reader = Reader::on(case).await?;
    reader.stays_alive(1).await?;
    case.run("START TRANSACTION; INSERT INTO {schema}.events (type, payload) VALUES ('gone', ''); ROLLBACK")
        .await?;
    case.committed("kept").await?;
    reader.until_dead(4).await?;
    case.on(&mut held, "XA COMMIT '{schema} held'").await?;
    while case.run("XA COMMIT '{schema} left'").await.is_err() {
        tokio::task::yield_now().await;
    }
    while reader.claim().await?.holes > 0 {}
    let mut late = reader.read.split_off(2);
    late.sort_unstable();
    assert_eq!((reader.read, late), (vec![3, 5], vec![1, 2]));
    Ok(())
}

case! {
    /// Its next transactions are not the one that took the position.
    async fn a_connection_that_keeps_writing_does_not_keep_its_old_holes_alive(case) {
        let mut busy = case.writing("gone").await?;
        case.committed("kept").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_alive(1).await?;
        case.on(&mut busy, "ROLLBACK").await?;
        // At every look it has the outbox open.
        for _ in 0..3 {
            case.on(&mut busy, "COMMIT; START TRANSACTION").await?;
            case.insert(&mut busy, &[Event::new("open", "")]).await?;
            reader.claim().await?;
        }
        assert!(reader.is_dead(1), "{:?}", reader.dead);
    }
}

/// Listed as open sessions first, as prepared transactions later, and then without a connection.
async fn prepared_transactions_keep_their_positions_alive<W: Which>(case: &Case<W>) -> Result<()> {
    let (mut late, mut gone) = (case.another().await?, case.another().await?);
    for (client, name) in [(&mut late, "late"), (&mut gone, "gone")] {
        case.on(client, &format!("XA START '{{schema}} {name}'")).await?;
        case.insert(client, &[Event::new(name, "")]).await?;
    }
    case.committed("fast").await?;
    let mut reader = Reader::on(case).await?;
    reader.stays_alive(1).await?;
    for (client, name) in [(&mut late, "late"), (&mut gone, "gone")] {
        case.on(client, &format!("XA END '{{schema}} {name}'; XA PREPARE '{{schema}} {name}'")).await?;
    }
    reader.stays_alive(1).await?;
    late.disconnect().await.map_err(failed)?;
    gone.disconnect().await.map_err(failed)?;
    reader.stays_alive(1).await?;
    reader.stays_alive(2).await?;
    // And by one that never saw the sessions.
    let mut second = Reader::on(case).await?;
    second.stays_alive(1).await?;
    // A server may not have noticed yet that a connection is gone.
    for end in ["XA COMMIT '{schema} late'", "XA ROLLBACK '{schema} gone'"] {
        while case.run(end).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
    for reader in [&mut reader, &mut second] {
        reader.until_dead(2).await?;
        assert_eq!((reader.read.as_slice(), reader.is_dead(1)), (&[3, 1][..], false));
    }
    Ok(())
}

case! {
    async fn a_prepared_transaction_keeps_its_positions_alive(case) {
        prepared_transactions_keep_their_positions_alive(&case).await?;
    }
}

#[tokio::test]
async fn a_prepared_transaction_keeps_its_positions_alive_with_only_the_plugin() -> Result<()> {
    let Some(server) = own(with_nothing_but_the_plugin()) else { return Ok(()) };
    let case = Case::<MariaDb>::at(server.url()).await?;
    MySqlStore::migrate(&case.config).await?;
    prepared_transactions_keep_their_positions_alive(&case).await
}

/// The plugin knows connections, and what they do is asked elsewhere.
#[tokio::test]
async fn an_idle_transaction_is_not_waited_for_with_only_the_plugin() -> Result<()> {
    let Some(server) = own(with_nothing_but_the_plugin()) else { return Ok(()) };
    let case = Case::<MariaDb>::at(server.url()).await?;
    MySqlStore::migrate(&case.config).await?;
    undecided_transactions_keep_only_their_own_holes_alive(&case).await
}

/// Its lock was taken while nobody wrote locks down, so no list will ever have it.
#[tokio::test]
async fn an_uncommitted_event_keeps_its_position_alive_whichever_session_wrote_it() -> Result<()> {
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
    // One lists at every look, the other looks more often than it lists.
    let config = case.config.clone().list_writers_after(Duration::from_millis(100));
    let mut readers = [Reader::on(&case).await?, Reader::of(&MySqlStore::connect(&config).await?)];
    for reader in &mut readers {
        let until = Instant::now() + Duration::from_millis(500);
        while Instant::now() < until {
            reader.stays_alive(1).await?;
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

/// Its server was restarted in between, and told its own thread as the owner, or none.
async fn recovered_transactions_keep_their_positions_alive<W: Which>(server: Server) -> Result<()> {
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
    reader.stays_alive(1).await?;
    reader.stays_alive(2).await?;
    case.on(&mut client, "XA COMMIT 'late'; XA ROLLBACK 'gone'").await?;
    reader.until_dead(2).await?;
    assert_eq!((reader.read.as_slice(), reader.is_dead(1)), (&[3, 1][..], false));
    Ok(())
}

#[tokio::test]
async fn a_prepared_transaction_recovered_by_mysql_keeps_its_positions_alive() -> Result<()> {
    let Some(server) = own(Options::of(Kind::MySql)) else { return Ok(()) };
    recovered_transactions_keep_their_positions_alive::<MySql>(server).await
}

#[tokio::test]
async fn a_prepared_transaction_recovered_by_mariadb_keeps_its_positions_alive() -> Result<()> {
    let Some(server) = own(with_nothing_but_the_plugin()) else { return Ok(()) };
    recovered_transactions_keep_their_positions_alive::<MariaDb>(server).await
}

case! {
    async fn positions_rolled_back_to_a_savepoint_die_and_the_rest_is_delivered(case) {
        let mut writer = case.another().await?;
        case.on(&mut writer, "START TRANSACTION; SAVEPOINT s").await?;
        case.insert(&mut writer, &[Event::new("taken back", "")]).await?;
        case.on(&mut writer, "ROLLBACK TO s").await?;
        case.insert(&mut writer, &[Event::new("kept", "")]).await?;
        case.committed("fast").await?;
        let mut reader = Reader::on(&case).await?;
        reader.stays_alive(2).await?;
        case.on(&mut writer, "COMMIT").await?;
        reader.until_dead(1).await?;
        assert_eq!((reader.read.as_slice(), reader.is_dead(2)), (&[3, 2][..], false));
    }
}

case! {
    /// Under `LOCK TABLES` an INSERT uses a lock that is not the usual one.
    async fn a_session_that_locked_the_table_counts_as_a_writer(case) {
        let mut locker = case.another().await?;
        case.on(&mut locker, "SET autocommit = 0; LOCK TABLES {schema}.events WRITE").await?;
        case.insert(&mut locker, &[Event::new("late", "")]).await?;
        // Nobody can read now; a writer's lock is on the list from its first moment to its last.
        assert_eq!(MySqlStore::writers(&case.config).await?, Some(1));
        case.on(&mut locker, "COMMIT; UNLOCK TABLES").await?;
        assert_eq!(MySqlStore::writers(&case.config).await?, Some(0));
    }
}

case! {
    /// Nobody knows beforehand how many rows there are, so positions are taken in advance and left unused.
    async fn a_large_late_transaction_is_read_in_order_page_by_page(case) {
        let mut late = case.another().await?;
        let bulk = "SET SESSION cte_max_recursion_depth = 10000";
        _ = case.on(&mut late, bulk).await;
        let bulk = "START TRANSACTION;
                    INSERT INTO {schema}.events (type, payload)
                    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 900)
                    SELECT 'bulk', '' FROM n AS a JOIN (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS b";
        case.on(&mut late, bulk).await?;
        let fast = case.committed("fast").await?;
        let mut reader = Reader::on(&case).await?;
        assert_eq!(reader.claim().await?.holes, 1);
        case.on(&mut late, "COMMIT").await?;
        let next = case.committed("next").await?;
        while reader.claim().await?.more_at_once {}
        let expected: Vec<i64> = std::iter::once(fast).chain(1..=2700).chain([next]).collect();
        assert_eq!(reader.read, expected);
        reader.until_dead(2701).await?;
    }
}

case! {
    async fn too_many_holes_pause_the_tail_and_are_reported_until_one_closes(case) {
        let mut open = Vec::new();
        for _ in 0..2 {
            open.push(case.writing("open").await?);
            case.committed("kept").await?;
        }
        let config = case.config.clone().holes_max(2);
        let mut reader = Reader::of(&MySqlStore::connect(&config).await?);
        reader.claim().await?;
        case.committed("beyond").await?;
        let page = reader.claim().await?;
        assert_eq!((page.holes, page.holes_full), (2, true));
        assert_eq!((page.more_at_once, page.has_unread), (false, true));
        assert_eq!(reader.read, [2, 4]);
        case.on(&mut open[0], "COMMIT").await?;
        let page = reader.claim().await?;
        assert_eq!((page.holes_full, page.more_at_once, page.has_unread), (false, true, true));
        reader.claim().await?;
        assert_eq!(reader.read, [2, 4, 1, 5]);
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
