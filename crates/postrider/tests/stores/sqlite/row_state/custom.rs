//! Tables of anybody's in a SQLite file, by a map of their columns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postrider::layout::{ColumnMap, Field, RowTable};
use postrider::ledger::{ParkedRow, ParkedState};
use postrider::store::sqlite::SqliteRowStore;
use postrider::store::{
    Acquired, Budget, Claimed, LeaseRequest, Purge, RetentionScope, RowExtras, Settled, Settlement, Start,
    Store,
};
use postrider::{Code, Ident, Result};
use postrider_testkit::conformance::rows::{ATTEMPTS_MAX, Refusing, RowState, RowsUnderTest};
use rusqlite::OptionalExtension;

use super::case::{Case, failed, listed};
use crate::mapped::{GIVEN_UP, KINDS, columns};
use crate::relay_cases::{self, Table};

/// A table by what its rows say of their delivery: 0 a state, 1 a time, 2 nothing, 3 their absence.
struct Of<const KIND: usize>(Case, AtomicU32);

postrider_testkit::rows_conformance! {
    status: Of<0>,
    time: Of<1>,
    noted: Of<2>,
}

impl<const KIND: usize> Of<KIND> {
    fn ddl() -> &'static str {
        match KIND {
            0 => {
                "CREATE TABLE \"ShopEvents\" (
                     \"eventId\" TEXT PRIMARY KEY, kind TEXT NOT NULL, \"group by\" TEXT, body TEXT NOT NULL, extra JSON,
                     step TEXT NOT NULL DEFAULT 'new', tries INTEGER NOT NULL DEFAULT 0,
                     made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)"
            }
            1 => {
                "CREATE TABLE \"ShopEvents\" (
                     number INTEGER PRIMARY KEY, name TEXT NOT NULL, part TEXT, data TEXT NOT NULL,
                     made DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')), sent DATETIME)"
            }
            _ => {
                "CREATE TABLE \"ShopEvents\" (
                     id TEXT PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL,
                     type VARCHAR(255) NOT NULL, payload TEXT, made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)"
            }
        }
    }

    fn map() -> Result<ColumnMap> {
        KINDS[KIND].map(if KIND < 2 { &[] } else { &[(Field::CreatedAt, "made")] })
    }

    fn unmapped() -> Result<Self> {
        let mut case = Case::without_tables()?;
        case.table = RowTable::custom(Ident::new("ShopEvents")?, Self::map()?)?.max_attempts(ATTEMPTS_MAX);
        case.run(Self::ddl())?;
        Ok(Self(case, AtomicU32::new(0)))
    }

    fn new() -> Result<Self> {
        let case = Self::unmapped()?;
        SqliteRowStore::migrate(&case.0.path, &case.0.table, RowExtras::default())?;
        Ok(case)
    }

    /// The INSERT of a row, and its id unless the database gives it.
    fn insert(key: &str, number: usize) -> (String, Option<String>) {
        KINDS[KIND].insert_with_id("ShopEvents", '"', key, number)
    }

    /// The id as text, and the conditions of a delivered and of a given up row, and its tries.
    fn reported() -> (&'static str, &'static str, &'static str, &'static str) {
        match KIND {
            0 => ("t.\"eventId\"", "t.step = 'out'", "t.step = 'stuck'", "t.tries"),
            1 => ("CAST(t.number AS TEXT)", "t.sent IS NOT NULL", GIVEN_UP, "n.attempts"),
            _ => ("t.id", "d.row_id IS NOT NULL", GIVEN_UP, "n.attempts"),
        }
    }

    fn from() -> String {
        let (id, ..) = Self::reported();
        format!(
            "FROM \"ShopEvents\" AS t LEFT JOIN postrider_row_notes AS n ON n.row_id = {id}
             LEFT JOIN postrider_row_done AS d ON d.row_id = {id}"
        )
    }
}

impl<const KIND: usize> RowsUnderTest for Of<KIND> {
    const MARKS: bool = false;
    const SAYS_DELIVERED: bool = KIND < 2;

    async fn fresh() -> Result<Self> {
        Self::new()
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.store()
    }

    async fn write(&self, key: &str, rows: usize) -> Result<Vec<String>> {
        self.0.write_rows(rows, |number| Self::insert(key, number))
    }

    async fn row(&self, id: &str) -> Result<Option<(RowState, u32)>> {
        let (key, done, given_up, attempts) = Self::reported();
        let sql =
            format!("SELECT {done}, {given_up}, coalesce({attempts}, 0) {} WHERE {key} = ?1", Self::from());
        let connection = self.0.connect()?;
        let reported = connection.query_row(&sql, [id], |row| {
            Ok((
                row.get::<_, bool>(0)?,
                row.get::<_, Option<bool>>(1)?.unwrap_or(false),
                row.get::<_, u32>(2)?,
            ))
        });
        Ok(reported.optional().map_err(failed)?.map(|reported| match reported {
            // With the note goes what it counted.
            (true, _, attempts) => (RowState::Done, if KIND == 0 { attempts } else { 0 }),
            (_, true, attempts) => (RowState::GivenUp, attempts),
            (_, _, 0) => (RowState::Waiting, 0),
            (_, _, attempts) => (RowState::Retry, attempts),
        }))
    }

    async fn put_back(&self, id: &str) -> Result<()> {
        self.0.run(&match KIND {
            0 => format!("UPDATE \"ShopEvents\" SET step = 'new', tries = 0 WHERE \"eventId\" = '{id}'"),
            // Where a table has no word for it, the note is all there is.
            _ => format!("DELETE FROM postrider_row_notes WHERE row_id = '{id}'"),
        })
    }

    async fn deliver_elsewhere(&self, id: &str) -> Result<()> {
        self.0.run(&match KIND {
            0 => format!("UPDATE \"ShopEvents\" SET step = 'out' WHERE \"eventId\" = '{id}'"),
            1 => format!("UPDATE \"ShopEvents\" SET sent = CURRENT_TIMESTAMP WHERE number = {id}"),
            _ => {
                format!("INSERT INTO postrider_row_done (row_id, done_at) VALUES ('{id}', 4000000000000000)")
            }
        })
    }

    async fn refuse(&self, ids: &[&str], how: Refusing) -> Result<bool> {
        let (key, ..) = Self::reported();
        let rows = format!("{} IN ({})", key.replace("t.", "old."), listed(ids));
        // Of the last nothing is changed.
        if KIND > 1 { Ok(false) } else { self.0.refuse("\"ShopEvents\"", &rows, how) }
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        if KIND != 0 {
            return Ok(false);
        }
        self.0.run(&format!("UPDATE \"ShopEvents\" SET tries = 2147483647 WHERE \"eventId\" = '{id}'"))?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.0.expire_lease()
    }

    async fn age(&self) -> Result<()> {
        let times = if KIND == 1 { &["made", "sent"][..] } else { &["made"] };
        self.0.age("\"ShopEvents\"", times)
    }
}

impl<const KIND: usize> Table for Of<KIND> {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        self.0.store()
    }

    async fn write(&self, key: &str, number: usize) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.run(&Self::insert(key, number).0)
    }

    async fn delivered(&self) -> Result<usize> {
        if KIND == 3 {
            let left: u32 = self.0.one("SELECT count(*) FROM \"ShopEvents\"")?;
            return Ok((self.1.load(Ordering::Relaxed) - left) as usize);
        }
        let (_, done, ..) = Self::reported();
        self.0
            .one::<u32>(&format!("SELECT count(*) {} WHERE {done}", Self::from()))
            .map(|count| count as usize)
    }

    async fn undelivered(&self) -> Result<Vec<(u32, bool)>> {
        let (_, done, given_up, attempts) = Self::reported();
        let done = if KIND == 3 { "0" } else { done };
        let connection = self.0.connect()?;
        let sql = format!(
            "SELECT coalesce({attempts}, 0), coalesce({given_up}, 0) {} WHERE NOT ({done})",
            Self::from()
        );
        let mut statement = connection.prepare(&sql).map_err(failed)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
        rows.collect::<Result<_, _>>().map_err(failed)
    }

    async fn tries_max(&self) -> Result<u32> {
        let (.., attempts) = Self::reported();
        self.0.one(&format!("SELECT coalesce(max({attempts}), 0) {}", Self::from()))
    }

    async fn dead(&self) -> Result<Vec<String>> {
        self.0.dead()
    }
}

macro_rules! relays {
    ($($test:ident)+) => { $(
        #[tokio::test]
        async fn $test() -> Result<()> {
            relay_cases::$test(Of::<0>::new()?).await?;
            relay_cases::$test(Of::<1>::new()?).await?;
            relay_cases::$test(Of::<2>::new()?).await?;
            relay_cases::$test(Of::<3>::new()?).await
        }
    )+ };
}

relays! {
    every_key_arrives_in_its_order_and_once
    a_poison_row_is_given_up_and_delays_only_its_own_key
    an_outage_counts_no_attempt_of_any_row
    rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next
}

#[test]
fn a_missing_or_mistyped_column_is_named_and_nothing_is_created() -> Result<()> {
    let case = Of::<2>::unmapped()?;
    for (field, column, why) in [
        (Field::Topic, "route", "has no column \"route\", which the column map names for `topic`"),
        (
            Field::MaxAttempts,
            "type",
            "column ShopEvents.type is varchar(255), but `max_attempts` needs a number",
        ),
        (Field::DeliveredAt, "made", "column ShopEvents.made is NOT NULL"),
        (Field::Id, "aggregateid", "column ShopEvents.aggregateid is not a unique key"),
    ] {
        let map = ColumnMap::debezium().with(field, column)?;
        let table = RowTable::custom(Ident::new("ShopEvents")?, map)?;
        let error = SqliteRowStore::migrate(&case.0.path, &table, RowExtras::default()).unwrap_err();
        assert_eq!(error.code(), Code::LayoutDiffers);
        assert!(error.one_line().contains(why), "{why:?} is not in {:?}", error.one_line());
        let ours: u32 = case.0.one("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'postrider%'")?;
        assert_eq!(ours, 0);
    }
    Ok(())
}

#[test]
fn a_table_that_reuses_row_numbers_or_is_shared_is_refused() -> Result<()> {
    let case = Case::without_tables()?;
    case.run("CREATE TABLE \"ShopEvents\" (nr INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT)")?;
    let map =
        columns(&[(Field::Id, "nr"), (Field::Type, "kind"), (Field::Payload, "body"), (Field::Order, "nr")])?;
    let table = |map: &ColumnMap| RowTable::custom(Ident::new("ShopEvents")?, map.clone());
    let migrate = |table: &RowTable| SqliteRowStore::migrate(&case.path, table, RowExtras::default());
    let refused = migrate(&table(&map)?).unwrap_err().one_line();
    assert!(refused.contains("may reuse the number of a deleted row for a new row"), "{refused}");
    let refused = migrate(&table(&map.clone().deleting())?.shared(true)).unwrap_err().one_line();
    assert!(refused.contains("cannot be shared on SQLite"), "{refused}");
    migrate(&table(&map.deleting())?).map(|_| ())
}

/// Between two tries somebody cancels the row: it is theirs from then on.
#[tokio::test]
async fn a_waiting_row_in_an_unknown_state_is_neither_sent_nor_changed() -> Result<()> {
    let case = Of::<0>::new()?;
    Table::write(&case, "k", 0).await?;
    let store = case.0.store()?;
    store.subscribe("mail", Start::Beginning).await?;
    let lease = LeaseRequest {
        subscription: "mail".into(),
        holder: "first".into(),
        duration: Duration::from_secs(600),
    };
    let Acquired::Granted(loaded) = store.acquire(lease).await? else { panic!("the lease is free") };
    let budget = Budget { events_max: 10, bytes_max: 1_000_000 };
    let Claimed::Page(page) = store.claimer(&loaded.progress).claim(budget).await? else { panic!("a page") };
    let event = page.events[0].clone();
    let mut done = loaded.progress.done.clone();
    done.insert(event.position);
    let waits = ParkedRow {
        position: event.position,
        key: None,
        destination: None,
        state: ParkedState::Retry,
        attempts: 1,
        next_attempt_at: Some(event.event.time),
        last_error: None,
    };
    let (subscription, epoch) = ("mail".to_owned(), loaded.epoch);
    let settlement = Settlement {
        subscription,
        epoch,
        done,
        highest: None,
        trial: None,
        park: vec![waits],
        unpark: vec![],
    };
    assert_eq!(store.settle(settlement.clone()).await?, Settled::Done);
    case.0.run("UPDATE \"ShopEvents\" SET step = 'cancelled'")?;
    let fetched = store.fetch(vec![event.position], 1_000_000).await?;
    assert_eq!((fetched.events.len(), fetched.taken), (0, vec![event.position]), "it is not sent");
    let over = Settlement { park: vec![], unpark: vec![event.position], ..settlement };
    assert_eq!(store.settle(over).await?, Settled::Done);
    assert_eq!(case.0.one::<String>("SELECT step FROM \"ShopEvents\"")?, "cancelled", "nor changed");
    Ok(())
}

/// A note is all that tells of a delivery here: while its row is there, so is it.
#[tokio::test]
async fn retention_keeps_the_note_of_a_row_that_its_table_keeps() -> Result<()> {
    for scope in [RetentionScope::Own, RetentionScope::All] {
        let case = Of::<2>::new()?;
        for number in 0..3 {
            Table::write(&case, "k", number).await?;
        }
        case.0.run(
            "UPDATE \"ShopEvents\" SET made = '2999-01-01 00:00:00' WHERE payload LIKE '%1%';
             INSERT INTO postrider_row_done (row_id, done_at)
             SELECT id, 1 + row_number() OVER (ORDER BY payload) FROM \"ShopEvents\";
             CREATE TRIGGER keep BEFORE DELETE ON \"ShopEvents\" WHEN old.payload LIKE '%0%'
             BEGIN SELECT RAISE(IGNORE); END",
        )?;
        let store = case.0.store()?;
        let mut deleted = Vec::new();
        for _ in 0..4 {
            let trim = Purge { scope, ..Purge::new(Duration::from_secs(60), 1) };
            deleted.push(store.purge(trim).await?.deleted);
        }
        assert_eq!(deleted, [0, 1, 1, 0], "a row that stays delays no other");
        assert_eq!((case.delivered().await?, case.undelivered().await?), (1, vec![]));
    }
    Ok(())
}
