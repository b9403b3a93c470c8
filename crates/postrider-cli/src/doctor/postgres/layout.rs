//! A table with a state per row.

use postrider::layout::{RowLayout, RowTable};
use postrider::store::Store;
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};

use super::{Check, Patient};

/// Looks at the table and says whether it can be worked on.
pub(super) async fn examine(config: &PostgresConfig, rows: &RowTable, patient: &mut Patient<'_>) -> bool {
    let name = rows.layout().name();
    match PostgresRowStore::differences(config, rows).await {
        Ok(differences) if differences.is_empty() => {
            patient.ok(Check::LayoutTable, format!("as layout {name} has it"));
        }
        Ok(differences) => {
            let told: Vec<&str> = differences.iter().map(|difference| difference.what.as_str()).collect();
            patient.warn(Check::LayoutTable, told.join("; "));
        }
        Err(error) => patient.warn(Check::LayoutTable, format!("cannot be told: {}", error.sentence())),
    }
    inbox(config, rows, patient).await;
    match PostgresRowStore::connect(config, rows).await {
        Ok(store) => {
            store.close().await;
            strangers(config, rows, patient).await;
            patient.ok(Check::SchemaCurrent, format!("the tables beside {name} are there"));
            true
        }
        Err(error) => {
            patient.fail(Check::SchemaCurrent, error.sentence());
            false
        }
    }
}

/// Whether the inbox of seed 003, if it is there, lets every consumer group process an event.
async fn inbox(config: &PostgresConfig, rows: &RowTable, patient: &mut Patient<'_>) {
    if rows.layout() != RowLayout::Outbox {
        return;
    }
    let check = Check::LayoutInbox;
    match PostgresRowStore::inbox_keys_of_one_group(config, rows).await {
        Ok(None) => {}
        Ok(Some(keys)) if keys.is_empty() => {
            patient.ok(check, "every consumer group can process every event of processed_events");
        }
        Ok(Some(keys)) => {
            let keys = keys.join(", ");
            patient.warn(
                check,
                format!("processed_events has the key {keys}: one consumer group only can process an event"),
            );
        }
        Err(error) => patient.warn(check, format!("cannot be told: {}", error.sentence())),
    }
}

/// Rows that somebody else has marked as being published. A publisher that died leaves them so for ever.
async fn strangers(config: &PostgresConfig, rows: &RowTable, patient: &mut Patient<'_>) {
    if rows.layout() != RowLayout::OutboxEvents {
        return;
    }
    match PostgresRowStore::foreign_claims(config, rows).await {
        Ok(0) => patient.ok(Check::LayoutClaims, "no row is marked as PUBLISHING by somebody else"),
        Ok(1) => patient.warn(Check::LayoutClaims, "1 row is marked as PUBLISHING by somebody else"),
        Ok(many) => {
            patient
                .warn(Check::LayoutClaims, format!("{many} rows are marked as PUBLISHING by somebody else"));
        }
        Err(error) => patient.warn(Check::LayoutClaims, format!("cannot be told: {}", error.sentence())),
    }
}
