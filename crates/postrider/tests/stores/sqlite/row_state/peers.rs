//! Tables with a type in a header, several states for waiting rows, binary payloads, and a time of giving up.

use postrider::layout::{ColumnMap, MappedField, RowTable};
use postrider::store::RowExtras;
use postrider::store::sqlite::SqliteRowStore;
use postrider::{Ident, Result};
use postrider_testkit::eventually;

use super::case::Case;
use crate::arrivals::{Arrivals, strings};
use crate::mapped::{columns, states};
use crate::relay_cases::relay_to;

const TABLE: &str = "
    CREATE TABLE \"Outbox Messages\" (\"Id\" INTEGER PRIMARY KEY AUTOINCREMENT, \"Meta\" TEXT, \"Body\" BLOB,
        \"State\" TEXT NOT NULL, \"GivenUpAt\" DATETIME);
    INSERT INTO \"Outbox Messages\" (\"Meta\", \"Body\", \"State\") VALUES
        ('{\"name\": \"placed\"}', X'00FF80', 'NEW'), ('{\"name\": \"paid\"}', '2', 'RETRY'),
        ('{\"name\": \"bad\"}', '3', 'RETRY'), ('no JSON', '4', 'NEW'), ('{\"name\": \"paid\"}', '5', 'HELD')";

fn map() -> Result<ColumnMap> {
    let map = columns(&[
        (MappedField::Id, "Id"),
        (MappedField::Headers, "Meta"),
        (MappedField::Payload, "Body"),
        (MappedField::Order, "Id"),
        (MappedField::Status, "State"),
        (MappedField::GivenUpAt, "GivenUpAt"),
    ])?;
    Ok(map.states(states(["NEW", "RETRY"], "SENT", None)?))
}

async fn arrivals(map: ColumnMap, table: &str) -> Result<(Case, Vec<[String; 4]>)> {
    let mut case = Case::without_tables()?;
    case.run(table)?;
    case.table = RowTable::custom(Ident::new("Outbox Messages")?, map)?.max_attempts(2);
    SqliteRowStore::migrate(&case.path, &case.table, RowExtras::default())?;
    let arrivals = Arrivals::default();
    let relay = relay_to(case.store()?, arrivals.clone()).await?;
    let left = "SELECT count(*) FROM \"Outbox Messages\" WHERE \"State\" IN ('NEW', 'RETRY') AND \"GivenUpAt\" IS NULL";
    eventually("every row is settled", async || Ok(case.one::<u32>(left)? == 0)).await?;
    relay.shutdown().await?;
    Ok((case, arrivals.sorted()))
}

#[tokio::test]
async fn a_header_contains_the_type_and_an_undeliverable_row_gets_the_time_it_was_given_up() -> Result<()> {
    let (case, arrived) = arrivals(map()?.typed_by_header("name")?, TABLE).await?;
    let bytes = String::from_utf8_lossy(&[0, 0xff, 0x80]).into_owned();
    assert_eq!(arrived, strings(&[["paid", "", "", "2"], ["placed", "", "", &bytes]]));
    let states: String = case.one("SELECT group_concat(\"State\") FROM \"Outbox Messages\"")?;
    assert_eq!(states, "SENT,SENT,RETRY,NEW,HELD");
    let given_up = "SELECT group_concat(\"Id\") FROM \"Outbox Messages\" WHERE \"GivenUpAt\" IS NOT NULL";
    assert_eq!(case.one::<String>(given_up)?, "3,4");
    Ok(())
}

#[tokio::test]
async fn one_type_for_all_events_needs_no_column() -> Result<()> {
    let table = TABLE.replace("'no JSON'", "NULL");
    let (_, arrived) = arrivals(map()?.typed("message")?, &table).await?;
    assert_eq!(arrived.len(), 4);
    assert!(arrived.iter().all(|[event_type, ..]| event_type == "message"), "{arrived:?}");
    Ok(())
}
