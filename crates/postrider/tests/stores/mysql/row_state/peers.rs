//! Tables of other outbox libraries, with a column map. Each definition was written after that of the library.

use postrider::layout::{ColumnMap, MappedField, RowLayout, RowTable};
use postrider::store::RowExtras;
use postrider::store::mysql::MySqlRowStore;
use postrider::{Ident, Result};
use postrider_testkit::eventually;

use super::case::RowCase;
use crate::arrivals::{Arrivals, strings};
use crate::mapped::{cap, watermill};
use crate::mysql::log::case::{MariaDb, MySql, ServerKind};
use crate::relay_cases::relay_to;

macro_rules! on_both {
    ($($test:ident)+) => { $(
        #[tokio::test]
        async fn $test() -> Result<()> {
            if RowCase::<MySql>::is_available() {
                on::$test::<MySql>().await?;
            }
            if RowCase::<MariaDb>::is_available() {
                on::$test::<MariaDb>().await?;
            }
            Ok(())
        }
    )+ };
}

on_both! {
    a_watermill_table_takes_the_type_from_a_header_or_a_constant
    a_cap_table_has_several_pending_states_and_its_blobs_arrive_unchanged
}

async fn arrivals<W: ServerKind>(
    statements: &[&str],
    map: ColumnMap,
    left: &str,
) -> Result<Vec<[String; 4]>> {
    let mut case = RowCase::<W>::without_tables(RowLayout::Custom).await?;
    for statement in statements {
        case.run(statement).await?;
    }
    case.table = RowTable::custom(Ident::new("Outbox Messages")?, map)?
        .in_schema(Ident::new(&case.schema)?)
        .max_attempts(2);
    MySqlRowStore::migrate(&case.config, &case.table, RowExtras::default()).await?;
    let arrivals = Arrivals::default();
    let relay = relay_to(case.store().await?, arrivals.clone()).await?;
    eventually("every row is settled", async || Ok(case.one::<i64>(left).await? == 0)).await?;
    relay.shutdown().await?;
    Ok(arrivals.sorted())
}

mod on {
    use super::*;

    pub(super) async fn a_watermill_table_takes_the_type_from_a_header_or_a_constant<W: ServerKind>()
    -> Result<()> {
        let table = "CREATE TABLE `Outbox Messages` (`offset` BIGINT AUTO_INCREMENT PRIMARY KEY,
                         `uuid` VARCHAR(36) NOT NULL, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
                         payload JSON, metadata JSON)";
        let rows = "INSERT INTO `Outbox Messages` (`uuid`, payload, metadata) VALUES
                        ('0190a3c4-0000-7000-8000-000000000001', '1', '{\"name\": \"order.placed\"}'),
                        ('0190a3c4-0000-7000-8000-000000000002', '2', '{\"name\": \"order.paid\"}')";
        let left =
            "SELECT (SELECT COUNT(*) FROM `Outbox Messages`) - (SELECT COUNT(*) FROM {ledger}.row_done)";
        let by_header = watermill()?.typed_by_header("name")?;
        let arrived = arrivals::<W>(&[table, rows], by_header, left).await?;
        assert_eq!(arrived, strings(&[["order.paid", "", "", "2"], ["order.placed", "", "", "1"]]));
        let arrived = arrivals::<W>(&[table, rows], watermill()?.typed("orders")?, left).await?;
        assert_eq!(arrived, strings(&[["orders", "", "", "1"], ["orders", "", "", "2"]]));
        Ok(())
    }

    /// With a column for the time at which a row was given up.
    pub(super) async fn a_cap_table_has_several_pending_states_and_its_blobs_arrive_unchanged<
        W: ServerKind,
    >() -> Result<()> {
        let table =
            "CREATE TABLE `Outbox Messages` (`Id` BIGINT PRIMARY KEY, `Version` VARCHAR(20) DEFAULT 'v1',
                         `Name` VARCHAR(200) NOT NULL, `Content` LONGBLOB, `Retries` INT NOT NULL DEFAULT 0,
                         `Added` DATETIME NOT NULL DEFAULT (UTC_TIMESTAMP()), `ExpiresAt` DATETIME,
                         `StatusName` VARCHAR(40) NOT NULL, `GivenUpAt` DATETIME)";
        let rows = "INSERT INTO `Outbox Messages` (`Id`, `Name`, `Content`, `StatusName`) VALUES
                        (1, 'placed', X'00FF80', 'Scheduled'), (2, 'paid', '{\"Value\":2}', 'Delayed'),
                        (3, 'queued', '{}', 'Queued'), (4, 'bad', '{}', 'Delayed')";
        let left = "SELECT COUNT(*) FROM `Outbox Messages`
                    WHERE `StatusName` IN ('Scheduled', 'Delayed') AND `GivenUpAt` IS NULL";
        let arrived =
            arrivals::<W>(&[table, rows], cap(None, &[(MappedField::GivenUpAt, "GivenUpAt")])?, left).await?;
        let bytes = String::from_utf8_lossy(&[0, 0xff, 0x80]).into_owned();
        assert_eq!(arrived, strings(&[["paid", "", "", "{\"Value\":2}"], ["placed", "", "", &bytes]]));
        Ok(())
    }
}
