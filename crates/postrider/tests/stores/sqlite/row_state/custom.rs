//! User-defined tables in a SQLite file, by a map of their columns.

use std::time::Duration;

use postrider::layout::{ColumnMap, MappedField, RowTable};
use postrider::ledger::{ParkedRow, ParkedState};
use postrider::store::sqlite::SqliteRowStore;
use postrider::store::{
    Acquired, Budget, Claimed, Purge, RetentionScope, RowExtras, Settled, Settlement, Start,
};
use postrider::{Code, Ident, Result};
use postrider_testkit::conformance::rows::ATTEMPTS_MAX;

use super::case::Case;
use crate::mapped::{Kind, MappedDatabase, MappedTable, columns};
use crate::relay_cases::Table;
use crate::row_database::lease;

postrider_testkit::rows_conformance! {
    status: MappedTable<Case, 0>,
    time: MappedTable<Case, 1>,
    noted: MappedTable<Case, 2>,
}

fn ddl(kind: Kind) -> &'static str {
    match kind {
        Kind::Status => {
            "CREATE TABLE \"ShopEvents\" (
                 \"eventId\" TEXT PRIMARY KEY, kind TEXT NOT NULL, \"group by\" TEXT, body TEXT NOT NULL, extra JSON,
                 step TEXT NOT NULL DEFAULT 'new', tries INTEGER NOT NULL DEFAULT 0,
                 made TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)"
        }
        Kind::Time => {
            "CREATE TABLE \"ShopEvents\" (
                 number INTEGER PRIMARY KEY, name TEXT NOT NULL, part TEXT, data TEXT NOT NULL,
                 made DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')), sent DATETIME)"
        }
        Kind::Noted | Kind::Deleted => {
            "CREATE TABLE \"ShopEvents\" (
                 id TEXT PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL,
                 type VARCHAR(255) NOT NULL, payload TEXT, made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)"
        }
    }
}

impl MappedDatabase for Case {
    const TABLE: &'static str = "ShopEvents";
    const QUOTE: char = '"';
    const ATTEMPTS_TOP: u32 = 2_147_483_647;

    async fn create_unmapped(kind: Kind) -> Result<Self> {
        let mut case = Case::without_tables()?;
        let map = kind.map(match kind {
            Kind::Status | Kind::Time => &[],
            Kind::Noted | Kind::Deleted => &[(MappedField::CreatedAt, "made")],
        })?;
        case.table = RowTable::custom(Ident::new("ShopEvents")?, map)?.max_attempts(ATTEMPTS_MAX);
        case.run(ddl(kind))?;
        Ok(case)
    }

    async fn migrate(&self) -> Result<()> {
        SqliteRowStore::migrate(&self.path, &self.table, RowExtras::default()).map(|_| ())
    }

    fn note_of_delivery(id: &str) -> (&'static str, String) {
        ("row_id, done_at", format!("'{id}', 4000000000000000"))
    }
}

crate::mapped::mapped_relay_tests!(Case);

#[tokio::test]
async fn a_missing_or_mistyped_column_is_named_and_nothing_is_created() -> Result<()> {
    let case = Case::create_unmapped(Kind::Noted).await?;
    for (field, column, why) in [
        (MappedField::Topic, "route", "has no column \"route\", which the column map names for `topic`"),
        (
            MappedField::MaxAttempts,
            "type",
            "column ShopEvents.type is varchar(255), but `max_attempts` needs a number",
        ),
        (MappedField::DeliveredAt, "made", "column ShopEvents.made is NOT NULL"),
        (MappedField::Id, "aggregateid", "column ShopEvents.aggregateid is not a unique key"),
    ] {
        let map = ColumnMap::debezium().with(field, column)?;
        let table = RowTable::custom(Ident::new("ShopEvents")?, map)?;
        let error = SqliteRowStore::migrate(&case.path, &table, RowExtras::default()).unwrap_err();
        assert_eq!(error.code(), Code::LayoutDiffers);
        assert!(error.one_line().contains(why), "{why:?} is not in {:?}", error.one_line());
        let ours: u32 = case.one("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'postrider%'")?;
        assert_eq!(ours, 0);
    }
    Ok(())
}

#[test]
fn a_table_that_reuses_row_numbers_or_is_shared_is_refused() -> Result<()> {
    let case = Case::without_tables()?;
    case.run("CREATE TABLE \"ShopEvents\" (nr INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT)")?;
    let map = columns(&[
        (MappedField::Id, "nr"),
        (MappedField::Type, "kind"),
        (MappedField::Payload, "body"),
        (MappedField::Order, "nr"),
    ])?;
    let table = |map: &ColumnMap| RowTable::custom(Ident::new("ShopEvents")?, map.clone());
    let migrate = |table: &RowTable| SqliteRowStore::migrate(&case.path, table, RowExtras::default());
    let refused = migrate(&table(&map)?).unwrap_err().one_line();
    assert!(refused.contains("may reuse the number of a deleted row for a new row"), "{refused}");
    let refused = migrate(&table(&map.clone().deleting())?.shared(true)).unwrap_err().one_line();
    assert!(refused.contains("cannot be shared on SQLite"), "{refused}");
    migrate(&table(&map.deleting())?).map(|_| ())
}

/// Another program cancels the row between two attempts: the row belongs to that program from then on.
#[tokio::test]
async fn a_waiting_row_in_an_unknown_state_is_neither_sent_nor_changed() -> Result<()> {
    let case = MappedTable::<Case, 0>::new().await?;
    Table::write(&case, "k", 0).await?;
    let store = case.database.store()?;
    store.subscribe("mail", Start::Beginning).await?;
    let lease = lease(Duration::from_secs(600));
    let Acquired::Granted(loaded) = store.acquire(lease).await? else { panic!("the lease is free") };
    let budget = Budget::new(10, 1_000_000);
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
        redelivery: None,
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
    case.database.run("UPDATE \"ShopEvents\" SET step = 'cancelled'")?;
    let fetched = store.fetch(vec![event.position], 1_000_000).await?;
    assert_eq!((fetched.events.len(), fetched.taken), (0, vec![event.position]), "it is not sent");
    let over = Settlement { park: vec![], unpark: vec![event.position], ..settlement };
    assert_eq!(store.settle(over).await?, Settled::Done);
    assert_eq!(case.database.one::<String>("SELECT step FROM \"ShopEvents\"")?, "cancelled", "nor changed");
    Ok(())
}

/// Only the note records the delivery here, so it is kept as long as its row.
#[tokio::test]
async fn retention_keeps_the_note_of_a_row_that_its_table_keeps() -> Result<()> {
    for scope in [RetentionScope::Own, RetentionScope::All] {
        let case = MappedTable::<Case, 2>::new().await?;
        for number in 0..3 {
            Table::write(&case, "k", number).await?;
        }
        case.database.run(
            "UPDATE \"ShopEvents\" SET made = '2999-01-01 00:00:00' WHERE payload LIKE '%1%';
             INSERT INTO postrider_row_done (row_id, done_at)
             SELECT id, 1 + row_number() OVER (ORDER BY payload) FROM \"ShopEvents\";
             CREATE TRIGGER keep BEFORE DELETE ON \"ShopEvents\" WHEN old.payload LIKE '%0%'
             BEGIN SELECT RAISE(IGNORE); END",
        )?;
        let store = case.database.store()?;
        let mut deleted = Vec::new();
        for _ in 0..4 {
            let trim = Purge { scope, ..Purge::new(Duration::from_secs(60), 1) };
            deleted.push(store.purge(trim).await?.deleted);
        }
        assert_eq!(deleted, [0, 1, 1, 0], "a row that stays delays no other");
        let kept: u32 = case.database.one("SELECT count(*) FROM \"ShopEvents\"")?;
        assert_eq!((kept, case.undelivered().await?), (1, vec![]));
    }
    Ok(())
}
