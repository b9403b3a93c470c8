//! The inbox table of the layout `outbox`.

use postrider::layout::{Ability, RowTable};
use postrider::store::postgres::{PostgresConfig, PostgresRowStore};

use super::{Check, Subject};

/// Whether `processed_events`, if it exists, lets every consumer group process an event.
pub(super) async fn check(config: &PostgresConfig, rows: &RowTable, subject: &mut Subject<'_>) {
    if !rows.layout().has(Ability::Inbox) {
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
        Err(error) => subject.unchecked(check, &error.one_line()),
    }
}
