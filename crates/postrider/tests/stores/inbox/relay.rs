//! A relay cleans the inbox in the same database as its outbox, whatever the retention of events is.

use std::time::Duration;

use postrider::relay::{OutboxOptions, Retention};
use postrider::store::sqlite::SqliteStore;
use postrider::{Code, Relay, Subscription};
use postrider_testkit::eventually;
use rusqlite::Connection;

use crate::recording_sink::RecordingSink;

/// An inbox with one row that has expired, one that has not, and one that expired too early for the outbox.
fn filled() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("shop.db");
    SqliteStore::migrate(&path).unwrap();
    let days =
        |days: i32| format!("CAST((julianday('now') + {days} - 2440587.5) * 86400000 AS INTEGER) * 1000");
    let mut rows = String::new();
    for (group, processed, expires) in [("old", -20, -1), ("young", -20, 10), ("early", -2, -1)] {
        rows += &format!(
            "INSERT INTO postrider_inbox (consumer_group, event_id, processed_at, expires_at)
             VALUES ('{group}', '019a0000-0000-7000-8000-000000000000', {}, {});",
            days(processed),
            days(expires)
        );
    }
    Connection::open(&path).unwrap().execute_batch(&rows).unwrap();
    (folder, path)
}

async fn groups_after(retention: Retention, expected: &str) {
    let (_folder, path) = filled();
    let store = SqliteStore::open(&path).unwrap();
    let subscription = Subscription::new("orders", RecordingSink::new(|_, _| None));
    let retention = retention.interval(Duration::from_millis(5));
    let relay = Relay::builder()
        .outbox_with(store, [subscription], OutboxOptions::default().retention(retention))
        .spawn()
        .await
        .unwrap();
    let groups = "SELECT group_concat(consumer_group, ' ') FROM
                  (SELECT consumer_group FROM postrider_inbox ORDER BY consumer_group)";
    let connection = Connection::open(&path).unwrap();
    eventually("expired rows are deleted", async || {
        let found: String = connection.query_row(groups, [], |row| row.get(0)).map_err(crate::failed)?;
        Ok(found == expected)
    })
    .await
    .unwrap();
    relay.shutdown().await.unwrap();
}

#[tokio::test]
async fn expired_inbox_rows_are_deleted_also_if_events_are_kept_forever() {
    groups_after(Retention::FOREVER, "young").await;
}

#[tokio::test]
async fn an_inbox_row_stays_as_long_as_the_outbox_keeps_its_events() {
    groups_after(Retention::default(), "early young").await;
}

#[tokio::test]
async fn a_relay_whose_inbox_would_forget_what_its_outbox_keeps_does_not_start() {
    let (_folder, path) = filled();
    let subscription = Subscription::new("orders", RecordingSink::new(|_, _| None));
    let retention = Retention::default().inbox_keep_for(Duration::from_secs(86_400));
    let store = SqliteStore::open(&path).unwrap();
    let refused = Relay::builder()
        .outbox_with(store, [subscription], OutboxOptions::default().retention(retention))
        .spawn()
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::PolicyInvalid);
}
