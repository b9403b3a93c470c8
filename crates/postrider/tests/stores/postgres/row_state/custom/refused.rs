//! Tables that do not match their column map. The error names the column.

use postrider::layout::{ColumnMap, MappedField, RowTable};
use postrider::store::RowExtras;
use postrider::store::postgres::PostgresRowStore;
use postrider::{Code, Ident, Result};

use super::case::Kind;
use crate::mapped::states;
use crate::postgres::row_state::case::Case;

async fn refusal(case: &Case, map: ColumnMap) -> Result<String> {
    let table = RowTable::custom(Ident::new("shop_events")?, map)?.in_schema(Ident::new(&case.schema)?);
    let error = PostgresRowStore::migrate(&case.config, &table, RowExtras::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::LayoutDiffers);
    let made = format!("SELECT to_regclass('{}.row_notes') IS NULL", case.ledger);
    assert!(case.one::<bool>(&made).await?, "nothing was made");
    Ok(error.one_line())
}

#[tokio::test]
async fn a_missing_or_mistyped_column_is_named_and_nothing_is_created() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Kind::Noted.unmapped().await?;
    let reported = refusal(&case, ColumnMap::debezium().with(MappedField::Topic, "route")?).await?;
    assert!(
        reported.contains("has no column \"route\", which the column map names for `topic`"),
        "{reported}"
    );
    let reported = refusal(&case, ColumnMap::debezium().with(MappedField::CreatedAt, "type")?).await?;
    assert!(
        reported.contains("column shop_events.type is character varying(255), but `created_at` needs a time"),
        "{reported}"
    );
    let reported = refusal(&case, ColumnMap::debezium().with(MappedField::DeliveredAt, "timestamp")?).await?;
    assert!(reported.contains("column shop_events.timestamp is NOT NULL"), "{reported}");
    let reported = refusal(&case, ColumnMap::debezium().with(MappedField::Id, "aggregateid")?).await?;
    assert!(reported.contains("column shop_events.aggregateid is not a unique key"), "{reported}");
    Ok(())
}

#[tokio::test]
async fn a_state_value_that_the_column_cannot_store_is_reported() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Kind::Status.unmapped().await?;
    let gone = Kind::Status.columns()?.states(states(["new"], "gone", None)?);
    let reported = refusal(&case, gone).await?;
    assert!(reported.contains("column shop_events.step cannot hold the status value 'gone'"), "{reported}");
    Ok(())
}

#[tokio::test]
async fn a_missing_table_is_not_created() -> Result<()> {
    if !Case::is_available() {
        return Ok(());
    }
    let case = Kind::Noted.unmapped().await?;
    case.run("DROP TABLE shop_events").await?;
    let reported = refusal(&case, ColumnMap::debezium()).await?;
    assert!(reported.contains("there is no table \"shop_events\""), "{reported}");
    Ok(())
}
