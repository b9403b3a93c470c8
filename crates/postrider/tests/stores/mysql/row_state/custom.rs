//! User-defined tables on MySQL and MariaDB, by a map of their columns.

use std::time::Duration;

use postrider::layout::{ColumnMap, MappedField, RowLayout, RowTable};
use postrider::store::mysql::MySqlRowStore;
use postrider::store::{Purge, RowExtras};
use postrider::{Code, Ident, Result};
use postrider_testkit::conformance::rows::ATTEMPTS_MAX;

use super::case::RowCase;
use crate::mapped::{Kind, MappedDatabase, MappedTable, columns, states};
use crate::mysql::log::case::{MariaDb, MySql, ServerKind};

type OnMySql<const KIND: usize> = MappedTable<RowCase<MySql>, KIND>;
type OnMariaDb<const KIND: usize> = MappedTable<RowCase<MariaDb>, KIND>;

postrider_testkit::rows_conformance! {
    status_on_mysql: OnMySql<0>,
    status_on_mariadb: OnMariaDb<0>,
    time_on_mysql: OnMySql<1>,
    time_on_mariadb: OnMariaDb<1>,
    noted_on_mysql: OnMySql<2>,
    noted_on_mariadb: OnMariaDb<2>,
}

fn ddl(kind: Kind) -> &'static str {
    match kind {
        // The id has its own character set and collation.
        Kind::Status => {
            "CREATE TABLE shop_events (
                 `eventId` VARCHAR(40) CHARACTER SET latin1 COLLATE latin1_german1_ci PRIMARY KEY, kind TEXT NOT NULL,
                 `group by` VARCHAR(80), body TEXT NOT NULL, extra JSON, step ENUM('new', 'out', 'stuck') NOT NULL DEFAULT 'new',
                 tries TINYINT NOT NULL DEFAULT 0, seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE,
                 made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)"
        }
        Kind::Time => {
            "CREATE TABLE shop_events (
                 number BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(80) NOT NULL, part VARCHAR(80),
                 data JSON NOT NULL, made DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)), sent DATETIME(6))"
        }
        Kind::Noted | Kind::Deleted => {
            "CREATE TABLE shop_events (
                 id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) NOT NULL,
                 type VARCHAR(255) NOT NULL, payload TEXT, made TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
                 seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE)"
        }
    }
}

fn map(kind: Kind) -> Result<ColumnMap> {
    kind.map(match kind {
        Kind::Status => &[(MappedField::Order, "seq")],
        Kind::Time => &[],
        Kind::Noted | Kind::Deleted => &[(MappedField::CreatedAt, "made"), (MappedField::Order, "seq")],
    })
}

impl<W: ServerKind> MappedDatabase for RowCase<W> {
    const TABLE: &'static str = "shop_events";
    const QUOTE: char = '`';
    const ATTEMPTS_TOP: u32 = 127;

    async fn create_unmapped(kind: Kind) -> Result<Self> {
        let mut case = RowCase::without_tables(RowLayout::Custom).await?;
        case.table = RowTable::custom(Ident::new("shop_events")?, map(kind)?)?
            .in_schema(Ident::new(&case.schema)?)
            .max_attempts(ATTEMPTS_MAX);
        case.run(ddl(kind)).await?;
        Ok(case)
    }

    async fn migrate(&self) -> Result<()> {
        MySqlRowStore::migrate(&self.config, &self.table, RowExtras::default()).await.map(|_| ())
    }
}

mod relay_on_mysql {
    use super::{MySql, RowCase};

    crate::mapped::mapped_relay_tests!(RowCase<MySql>);
}

mod relay_on_mariadb {
    use super::{MariaDb, RowCase};

    crate::mapped::mapped_relay_tests!(RowCase<MariaDb>);
}

async fn refused<W: ServerKind>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let case = RowCase::<W>::create_unmapped(Kind::Status).await?;
    let map = || map(Kind::Status);
    let gone = states(["new"], "gone", None)?;
    for (map, why) in [
        (
            map()?.with(MappedField::Topic, "route")?,
            "has no column \"route\", which the column map names for `topic`",
        ),
        (
            map()?.with(MappedField::CreatedAt, "seq")?,
            "column shop_events.seq is bigint, but `created_at` needs a time",
        ),
        (map()?.with(MappedField::Id, "group by")?, "column shop_events.group by is not a unique key"),
        (map()?.states(gone), "column shop_events.step cannot hold the status value 'gone'"),
    ] {
        let table = RowTable::custom(Ident::new("shop_events")?, map)?.in_schema(Ident::new(&case.schema)?);
        let error = MySqlRowStore::migrate(&case.config, &table, RowExtras::default()).await.unwrap_err();
        assert_eq!(error.code(), Code::LayoutDiffers);
        assert!(error.one_line().contains(why), "{why:?} is not in {:?}", error.one_line());
        let ours = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{ledger}'";
        assert_eq!(case.one::<u32>(ours).await?, 0, "nothing was created");
    }
    Ok(())
}

#[tokio::test]
async fn a_missing_or_mistyped_column_is_named_and_nothing_is_created() -> Result<()> {
    refused::<MySql>().await?;
    refused::<MariaDb>().await
}

/// Numeric ids have another order than the texts in Postrider's tables.
async fn notes_and_rows_go_together<W: ServerKind>() -> Result<()> {
    if !RowCase::<W>::is_available() {
        return Ok(());
    }
    let mut case = RowCase::<W>::without_tables(RowLayout::Custom).await?;
    let map = columns(&[
        (MappedField::Id, "id"),
        (MappedField::Type, "kind"),
        (MappedField::Payload, "body"),
        (MappedField::CreatedAt, "made"),
    ])?;
    case.table = RowTable::custom(Ident::new("shop_events")?, map)?.in_schema(Ident::new(&case.schema)?);
    // Created long after their notes, which still refer to them.
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
    assert_eq!(case.one::<u32>(due).await?, 0, "a row whose note is deleted first would be sent again");
    assert_eq!(case.one::<u32>("SELECT COUNT(*) FROM shop_events").await?, 1);
    Ok(())
}

#[tokio::test]
async fn retention_deletes_rows_and_their_notes_together() -> Result<()> {
    notes_and_rows_go_together::<MySql>().await?;
    notes_and_rows_go_together::<MariaDb>().await
}
