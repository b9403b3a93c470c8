//! A table with a state per row.

use postrider::layout::{RowLayout, RowTable};
use postrider::store::Store;
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};

use super::{Check, Subject};
use crate::doctor::layout::Findings;

/// Looks at the table and says whether it can be worked on.
pub(super) async fn check(config: &PostgresConfig, rows: &RowTable, subject: &mut Subject<'_>) -> bool {
    let opened = match PostgresRowStore::connect(config, rows).await {
        Ok(store) => {
            store.close().await;
            Ok(())
        }
        Err(error) => Err(error),
    };
    let found = Findings {
        differences: PostgresRowStore::differences(config, rows).await,
        strangers: PostgresRowStore::foreign_claims(config, rows).await,
        opened,
    };
    inbox(config, rows, subject).await;
    found.tell(rows, subject)
}

/// Whether `processed_events`, if it exists, lets every consumer group process an event.
async fn inbox(config: &PostgresConfig, rows: &RowTable, subject: &mut Subject<'_>) {
    if rows.layout() != RowLayout::Outbox {
        return;
    }
    let check = Check::LayoutInbox;
    match PostgresRowStore::inbox_keys_of_one_group(config, rows).await {
        Ok(None) => {}
        Ok(Some(keys)) if keys.is_empty() => {
            subject.ok(check, "every consumer group can process every event");
        }
        Ok(Some(keys)) => {
            let keys = keys.join(", ");
            subject.warn(
                check,
                format!("processed_events has the key {keys}: only one consumer group can process an event"),
            );
        }
        Err(error) => subject.warn(check, format!("cannot be checked: {}", error.one_line())),
    }
}
