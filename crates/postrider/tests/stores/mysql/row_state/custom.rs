//! Tables of anybody's on MySQL and MariaDB, by a map of their columns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use postrider::layout::{ColumnMap, Field, RowLayout, RowTable};
use postrider::store::mysql::MySqlRowStore;
use postrider::store::{Purge, RowExtras, Store};
use postrider::{Code, Ident, Result};
use postrider_testkit::conformance::rows::{ATTEMPTS_MAX, Refusing, RowState, RowsUnderTest};

use super::case::{RowCase, listed};
use crate::mapped::{GIVEN_UP, KINDS, columns, states};
use crate::mysql::log::case::{MariaDb, MySql, Which, failed};
use crate::relay_cases::{self, Table};

/// A table by what its rows say of their delivery: 0 a state, 1 a time, 2 nothing, 3 their absence.
struct Of<W, const KIND: usize>(RowCase<W>, AtomicU32);

postrider_testkit::rows_conformance! {
    status_on_mysql: Of<MySql, 0>,
    status_on_mariadb: Of<MariaDb, 0>,
    time_on_mysql: Of<MySql, 1>,
    time_on_mariadb: Of<MariaDb, 1>,
    noted_on_mysql: Of<MySql, 2>,
    noted_on_mariadb: Of<MariaDb, 2>,
}

impl<W: Which, const KIND: usize> Of<W, KIND> {
    fn ddl() -> &'static str {
        match KIND {
            // An id in a character set and a collation of its own.
            0 => {
                "CREATE TABLE shop_events (
                     `eventId` VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_german1_ci PRIMARY KEY, kind TEXT NOT NULL,
                     `group by` VARCHAR(80), body TEXT NOT NULL, extra JSON, step ENUM('new', 'out', 'stuck') NOT NULL DEFAULT 'new',
                     tries TINYINT NOT NULL DEFAULT 0, seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE,
                     made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)"
            }
            1 => {
                "CREATE TABLE shop_events (
                     number BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL, part VARCHAR(80),
                     data JSON NOT NULL, made DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)), sent DATETIME(6))"
            }
            _ => {
                "CREATE TABLE shop_events (
                     id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL,
                     type VARCHAR(255) NOT NULL, payload TEXT, made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
                     seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE)"
            }
        }
    }

    fn map() -> Result<ColumnMap> {
        KINDS[KIND].map(match KIND {
            0 => &[(Field::Order, "seq")],
            1 => &[],
            _ => &[(Field::CreatedAt, "made"), (Field::Order, "seq")],
        })
    }

    async fn unmapped() -> Result<Self> {
        let mut case = RowCase::without_tables(RowLayout::Custom).await?;
        case.table = RowTable::custom(Ident::new("shop_events")?, Self::map()?)?
            .in_schema(Ident::new(&case.schema)?)
            .max_attempts(ATTEMPTS_MAX);
        case.run(Self::ddl()).await?;
        Ok(Self(case, AtomicU32::new(0)))
    }

    async fn new() -> Result<Self> {
        let case = Self::unmapped().await?;
        MySqlRowStore::migrate(&case.0.config, &case.0.table, RowExtras::default()).await?;
        Ok(case)
    }

    /// The INSERT of a row, and its id unless the database gives it.
    fn insert(key: &str, number: usize) -> (String, Option<String>) {
        KINDS[KIND].insert_with_id("shop_events", '`', key, number)
    }

    /// The id, the conditions of a delivered and of a given up row, and its tries.
    fn reported() -> (&'static str, &'static str, &'static str, &'static str) {
        match KIND {
            0 => ("t.`eventId`", "t.step = 'out'", "t.step = 'stuck'", "t.tries"),
            1 => ("t.number", "t.sent IS NOT NULL", GIVEN_UP, "n.attempts"),
            _ => ("t.id", "d.row_id IS NOT NULL", GIVEN_UP, "n.attempts"),
        }
    }

    fn from() -> String {
        let (id, ..) = Self::reported();
        format!(
            "FROM shop_events AS t
             LEFT JOIN {{ledger}}.row_notes AS n ON n.row_id = CONVERT({id} USING utf8mb4) COLLATE utf8mb4_bin
             LEFT JOIN {{ledger}}.row_done AS d ON d.row_id = CONVERT({id} USING utf8mb4) COLLATE utf8mb4_bin"
        )
    }
}

impl<W: Which, const KIND: usize> RowsUnderTest for Of<W, KIND> {
    const MARKS: bool = false;
    const SAYS_DELIVERED: bool = KIND < 2;

    fn is_available() -> bool {
        RowCase::<W>::is_available()
    }

    async fn fresh() -> Result<Self> {
        Self::new().await
    }

    async fn open(&self) -> Result<Arc<dyn Store>> {
        self.0.store().await
    }

    async fn write(&self, key: &str, rows: usize) -> Result<Vec<String>> {
        self.0.write_rows(rows, |number| Self::insert(key, number)).await
    }

    async fn row(&self, id: &str) -> Result<Option<(RowState, u32)>> {
        let (key, done, given_up, attempts) = Self::reported();
        let sql = self.0.sql(&format!(
            "SELECT {done}, COALESCE({given_up}, FALSE), COALESCE({attempts}, 0) {} WHERE {key} = ?",
            Self::from()
        ));
        let mut client = self.0.client.lock().await;
        let reported: Option<(bool, bool, u32)> = client.exec_first(sql, (id,)).await.map_err(failed)?;
        Ok(reported.map(|reported| match reported {
            // With the note goes what it counted.
            (true, _, attempts) => (RowState::Done, if KIND == 0 { attempts } else { 0 }),
            (_, true, attempts) => (RowState::GivenUp, attempts),
            (_, _, 0) => (RowState::Waiting, 0),
            (_, _, attempts) => (RowState::Retry, attempts),
        }))
    }

    async fn put_back(&self, id: &str) -> Result<()> {
        let sql = match KIND {
            0 => format!("UPDATE shop_events SET step = 'new', tries = 0 WHERE `eventId` = '{id}'"),
            // Where a table has no word for it, the note is all there is.
            _ => format!("DELETE FROM {{ledger}}.row_notes WHERE row_id = '{id}'"),
        };
        self.0.run(&sql).await
    }

    async fn deliver_elsewhere(&self, id: &str) -> Result<()> {
        let sql = match KIND {
            0 => format!("UPDATE shop_events SET step = 'out' WHERE `eventId` = '{id}'"),
            1 => format!("UPDATE shop_events SET sent = UTC_TIMESTAMP(6) WHERE number = {id}"),
            _ => format!("INSERT INTO {{ledger}}.row_done (row_id) VALUES ('{id}')"),
        };
        self.0.run(&sql).await
    }

    async fn refuse(&self, ids: &[&str], how: Refusing) -> Result<bool> {
        let (key, ..) = Self::reported();
        // Of the last nothing is changed.
        if KIND > 1 {
            return Ok(false);
        }
        let rows = format!("{} IN ({})", key.replace("t.", "OLD."), listed(ids));
        self.0.refuse("shop_events", &rows, how).await
    }

    async fn count_to_the_end(&self, id: &str) -> Result<bool> {
        if KIND != 0 {
            return Ok(false);
        }
        let most = "CASE WHEN tries < 0 THEN 0 ELSE 127 END";
        self.0.run(&format!("UPDATE shop_events SET tries = {most} WHERE `eventId` = '{id}'")).await?;
        Ok(true)
    }

    async fn expire_lease(&self) -> Result<()> {
        self.0.expire_lease().await
    }

    async fn age(&self) -> Result<()> {
        let times = if KIND == 1 { &["made", "sent"][..] } else { &["made"] };
        self.0.age("shop_events", times).await
    }
}

impl<W: Which, const KIND: usize> Table for Of<W, KIND> {
    async fn store(&self) -> Result<Arc<dyn Store>> {
        self.0.store().await
    }

    async fn write(&self, key: &str, number: usize) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.run(&Self::insert(key, number).0).await
    }

    async fn delivered(&self) -> Result<usize> {
        if KIND == 3 {
            let left: u32 = self.0.one("SELECT COUNT(*) FROM shop_events").await?;
            return Ok((self.1.load(Ordering::Relaxed) - left) as usize);
        }
        let (_, done, ..) = Self::reported();
        let count: u32 = self.0.one(&format!("SELECT COUNT(*) {} WHERE {done}", Self::from())).await?;
        Ok(count as usize)
    }

    async fn undelivered(&self) -> Result<Vec<(u32, bool)>> {
        let (_, done, given_up, attempts) = Self::reported();
        let done = if KIND == 3 { "FALSE" } else { done };
        let sql = self.0.sql(&format!(
            "SELECT COALESCE({attempts}, 0), COALESCE({given_up}, FALSE) {} WHERE NOT ({done})",
            Self::from()
        ));
        self.0.client.lock().await.query(sql).await.map_err(failed)
    }

    async fn tries_max(&self) -> Result<u32> {
        let (.., attempts) = Self::reported();
        self.0.one(&format!("SELECT COALESCE(MAX({attempts}), 0) {}", Self::from())).await
    }

    async fn dead(&self) -> Result<Vec<String>> {
        self.0.dead().await
    }
}

macro_rules! relays {
    ($($test:ident)+) => { $(
        #[tokio::test]
        async fn $test() -> Result<()> {
            relay_on::$test::<MySql>().await?;
            relay_on::$test::<MariaDb>().await
        }
    )+

    mod relay_on {
        use super::*;

        $(pub(super) async fn $test<W: Which>() -> Result<()> {
            if !RowCase::<W>::is_available() {
                return Ok(());
            }
            relay_cases::$test(Of::<W, 0>::new().await?).await?;
            relay_cases::$test(Of::<W, 1>::new().await?).await?;
            relay_cases::$test(Of::<W, 2>::new().await?).await?;
            relay_cases::$test(Of::<W, 3>::new().await?).await
        })+
    } };
}

relays! {
    every_key_arrives_in_its_order_and_once
    a_poison_row_is_given_up_and_delays_only_its_own_key
    an_outage_counts_no_attempt_of_any_row
    rows_that_a_killed_relay_had_claimed_are_delivered_by_the_next
}

async fn refused<W: Which>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let case = Of::<W, 0>::unmapped().await?.0;
    let map = Of::<W, 0>::map;
    let gone = states(["new"], "gone", None)?;
    for (map, why) in [
        (
            map()?.with(Field::Topic, "route")?,
            "has no column \"route\", which the column map names for `topic`",
        ),
        (
            map()?.with(Field::CreatedAt, "seq")?,
            "column shop_events.seq is bigint, but `created_at` needs a time",
        ),
        (map()?.with(Field::Id, "group by")?, "column shop_events.group by is not a unique key"),
        (map()?.states(gone), "column shop_events.step cannot hold the status value 'gone'"),
    ] {
        let table = RowTable::custom(Ident::new("shop_events")?, map)?.in_schema(Ident::new(&case.schema)?);
        let error = MySqlRowStore::migrate(&case.config, &table, RowExtras::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::LayoutDiffers);
        assert!(error.one_line().contains(why), "{why:?} is not in {:?}", error.one_line());
        let ours = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{ledger}'";
        assert_eq!(case.one::<u32>(ours).await?, 0, "nothing was made");
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_or_mistyped_column_is_named_and_nothing_is_created() -> Result<()> {
    refused::<MySql>().await?;
    refused::<MariaDb>().await
}

/// Ids that are numbers stand in another order than the texts of our own tables.
async fn notes_and_rows_go_together<W: Which>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let mut case = RowCase::<W>::without_tables(RowLayout::Custom).await?;
    let map = columns(&[
        (Field::Id, "id"),
        (Field::Type, "kind"),
        (Field::Payload, "body"),
        (Field::CreatedAt, "made"),
    ])?;
    case.table = RowTable::custom(Ident::new("shop_events")?, map)?.in_schema(Ident::new(&case.schema)?);
    // Long after their notes: these are their rows all the same.
    case.run(
        "CREATE TABLE shop_events (id BIGINT PRIMARY KEY, kind VARCHAR(20) NOT NULL, body TEXT,
                                   made DATETIME(6) NOT NULL DEFAULT '2999-01-01')",
    )
    .await?;
    case.run("INSERT INTO shop_events (id, kind, body) VALUES (8, 'a', ''), (9, 'a', ''), (10, 'a', ''), (11, 'a', '')")
        .await?;
    MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    case.run("INSERT INTO {ledger}.row_done SELECT id, '2020-01-01' FROM shop_events").await?;
    let store = case.store().await?;
    let trim = Purge::new(Duration::from_secs(60), 3);
    assert_eq!(store.purge(trim).await?.deleted, 3);
    let due = "SELECT COUNT(*) FROM shop_events AS t
               WHERE NOT EXISTS (SELECT 1 FROM {ledger}.row_done AS d WHERE d.row_id = CAST(t.id AS CHAR))";
    assert_eq!(case.one::<u32>(due).await?, 0, "a row whose note went before it would be sent again");
    assert_eq!(case.one::<u32>("SELECT COUNT(*) FROM shop_events").await?, 1);
    Ok(())
}

#[tokio::test]
async fn retention_deletes_rows_and_their_notes_together() -> Result<()> {
    notes_and_rows_go_together::<MySql>().await?;
    notes_and_rows_go_together::<MariaDb>().await
}
